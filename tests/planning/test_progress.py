import logging
import sys
import threading
import time

import pytest

from tofu.planning import progress
from tofu.planning.progress import search_progress, show_progress, track_progress


@pytest.fixture
def clock(monkeypatch):
    """Return a function that sets the seconds since the start, and looks if a line is due."""
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 10**6)  # the thread only waits
    monkeypatch.setattr(progress, "SILENT_SECONDS", 2.0)

    def turn(to):
        seconds[0] = to
        if progress._displays.current is not None:
            progress._displays.current._print_line()

    return turn


def test_fast_work_is_silent(capsys, clock):
    with show_progress("planning"):
        clock(1.9)
    clock(100.0)
    assert capsys.readouterr() == ("", "")


def test_lines_become_less_frequent(capsys, clock):
    with show_progress("planning"):
        for seconds in range(0, 200, 2):
            clock(float(seconds))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"tofu: planning, {seconds} s" for seconds in (2, 10, 30, 60, 120, 180)]


def test_nested_texts_are_joined_and_share_the_clock(capsys, clock):
    with show_progress() as report:
        report("4 workers")
        with show_progress("planning"), search_progress() as report_search:
            report_search("round 1", 2048, 1024)
            clock(3.0)
        report("8 workers")
        clock(12.0)
        report("")
        clock(90.0)
    assert capsys.readouterr().err.splitlines() == [
        "tofu: 4 workers, planning, search (round 1), 2.0 KiB at best, 1.0 KiB at least, 3 s",
        "tofu: 8 workers, 12 s",
    ]


def test_items_are_counted(capsys, clock):
    items = track_progress(iter("abc"), "trying", 3)
    assert next(items) == "a"
    clock(2.0)
    assert next(items) == "b"
    clock(10.0)
    assert [*items] == ["c"]
    assert capsys.readouterr().err.splitlines() == ["tofu: trying, 0 of 3, 2 s", "tofu: trying, 1 of 3, 10 s"]


def test_a_terminal_has_one_line_which_disappears(capsys, clock, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    with show_progress("a long name of a step"):
        clock(2.0)
    written = capsys.readouterr().err
    assert "\n" not in written
    assert written.startswith("\x1b[2Ktofu: a long name o\r")
    assert written.endswith("\x1b[2K")


def test_the_logger_turns_progress_off(capsys, clock):
    logger = logging.getLogger("tofu")
    logger.setLevel(logging.ERROR)
    try:
        with show_progress("planning"):
            clock(5.0)
    finally:
        logger.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == ""


def test_threads_have_their_own_texts(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    barrier = threading.Barrier(2)

    def work(name):
        with show_progress(name):
            barrier.wait()
            display = progress._displays.current
            while display._next_line_seconds == 0.0:
                time.sleep(0.01)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(capsys.readouterr().err.splitlines()) == ["tofu: one, 0 s", "tofu: two, 0 s"]
