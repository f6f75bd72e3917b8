import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tests.command_line.calls import run
from tofu.command_line import doctor
from tofu.command_line import operators as operator_commands
from tofu.mxnet.verify import Case

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _handle_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its jobs ignore it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_command_ends_with_one_line(monkeypatch, number):
    monkeypatch.setattr(doctor, "examine", lambda: signal.raise_signal(number))
    result = run("doctor")
    assert (result.exit_code, result.output) == (128 + number, f"Ended by {number.name}.\n")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_verification_ends_its_processes(number):
    command = [sys.executable, "-m", "tofu", "verify", "--jobs", "2"]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert running.stderr.readline().startswith("tofu: verifying ")  # without a terminal
    os.killpg(running.pid, number) if number == signal.SIGINT else running.send_signal(number)
    out, errors = running.communicate(timeout=120)
    assert (running.returncode, out, errors) == (128 + number, "", f"Ended by {number.name}.\n")


def test_an_interrupted_recording_keeps_what_is_finished(monkeypatch):
    cases = (Case("tanh", {}, [(5, 7)]), Case("sigmoid", {}, [(5, 7)]))
    names = ("tanh", "_backward_tanh", "sigmoid", "_backward_sigmoid")
    known = {name: f"the entry of {name}" for name in ("sigmoid", "relu")}
    written = {}

    def collect(running, count, results):
        results.append(next(running))
        raise KeyboardInterrupt

    monkeypatch.setattr(operator_commands, "collect", collect)
    monkeypatch.setattr(operator_commands, "load_cases", lambda: cases)
    monkeypatch.setattr(operator_commands, "DESCRIPTIONS", {name: DESCRIPTIONS[name] for name in (*names, "relu")})
    monkeypatch.setattr(operator_commands, "read_record", lambda: known)
    monkeypatch.setattr(operator_commands, "write_record", written.update)
    result = run("verify", "--record", *names, "--examples", "0", "--no-missing", "--jobs", "1")
    assert (result.exit_code, result.output) == (130, "Ended by SIGINT. 2 of 4 operators are recorded.\n")
    assert written.keys() == {"tanh", "_backward_tanh", "sigmoid", "relu"}
    assert {name: written[name] for name in known} == known
    assert written["tanh"].is_verified
