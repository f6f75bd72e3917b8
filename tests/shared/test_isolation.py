import os
import signal
import time

import pytest

from tests.shared.isolation import Failure, run_isolated


def send_two(send, first):
    send(first)
    send(first + 1)


def fail(send):
    send(1)
    raise ValueError("no such model")


def end(send):
    send(1)
    os._exit(3)


def crash(send):
    send(1)
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep(send):
    send(1)
    time.sleep(600)


def allocate(send):
    send(1)
    send(len(bytearray(2**31)))


def test_messages_arrive_in_order():
    assert list(run_isolated(send_two, 7)) == [7, 8]


def test_the_first_message_has_its_own_limit():
    assert list(run_isolated(time.sleep, seconds=0.1, later_seconds=60)) == [Failure("stopped after 0.1 s")]


@pytest.mark.parametrize(
    ("work", "limits", "reason"),
    [
        (fail, {}, "ValueError: no such model"),
        (end, {}, "ended with code 3"),
        (crash, {}, "ended by SIGSEGV"),
        (sleep, {"later_seconds": 1}, "stopped after 1 s"),
        (allocate, {"memory_bytes": 2**30}, "MemoryError: "),
    ],
)
def test_failures_follow_the_messages_before_them(work, limits, reason):
    assert list(run_isolated(work, **limits)) == [1, Failure(reason)]
