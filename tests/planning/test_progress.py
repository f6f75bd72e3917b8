import pytest

from tofu.planning import progress


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, [f"tofu: trying, {n} of 3, 0 s" for n in (1, 2, 3)]), (1e9, [])])
def test_items_are_counted_in_lines_that_are_not_too_frequent(capsys, monkeypatch, seconds, lines):
    monkeypatch.setattr(progress, "SECONDS_OF_A_LINE", seconds)
    assert list(progress.track_progress(iter("abc"), "trying", 3)) == ["a", "b", "c"]
    assert list(progress.track_progress("abc", "trying")) == ["a", "b", "c"]
    found = capsys.readouterr()
    assert (found.out, found.err.splitlines()) == ("", [*lines, *lines])


def test_stages_are_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_OF_A_LINE", 0.0)
    with progress.stage_progress() as report:
        report("2 workers")
        report("4 workers")
    assert capsys.readouterr().err == "tofu: 2 workers, 0 s\ntofu: 4 workers, 0 s\n"
