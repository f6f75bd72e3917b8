"""The campaign of planted bugs: what is planted, what counts as noticed, and that it goes on where it was stopped."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks.mutation.mutants import Mutant, read_mutants
from benchmarks.mutation.results import Result, Results, draw_results, judge
from benchmarks.mutation.tree import ROOT, BrokenError, Tree
from benchmarks.mutations import list_open, main

BUG = Mutant("area/bug", "code.py", "return 1", "return 2", "the number", ("test_code.py",))
FAILING = "from code_here import number\n\n\ndef test_number():\n    assert number() == 1\n"
ENDLESS = "import time\n\n\ndef test_endless():\n    time.sleep(60)\n"


def test_files_and_tests_of_bugs_are_there():
    mutants = read_mutants()
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 80
    named = {mutant.file for mutant in mutants} | {
        test.split("::")[0].split(" ")[0] for mutant in mutants for test in mutant.tests
    }
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
    assert all(mutant.before != mutant.after and mutant.breaks for mutant in mutants)


@pytest.mark.parametrize("bug", read_mutants(), ids=lambda bug: bug.name)
def test_the_place_of_a_bug_is_there(bug):
    text = (ROOT / bug.file).read_text()
    assert bug.plant(text) != text


def test_a_bug_needs_exactly_one_place():
    assert BUG.plant("def one():\n    return 1\n") == "def one():\n    return 2\n"
    for text in ("", "return 1; return 1"):
        with pytest.raises(ValueError, match="exactly one place"):
            BUG.plant(text)


def make_tree(folder):
    """A tree of two files, without native code."""
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "code_here.py").write_text("def number():\n    return 1\n")
    (folder / "test_code.py").write_text(FAILING)
    (folder / "test_endless.py").write_text(ENDLESS)
    tree = Tree(folder)
    tree._has_stale_modules = False
    return tree


def test_what_tests_say_of_a_bug(tmp_path):
    tree, bug = make_tree(tmp_path), replace(BUG, file="code_here.py")
    assert tree.run(["test_code.py"], 60).outcome == "passed"
    with tree.planted(bug):
        verdict = tree.run(["test_code.py -k number"], 60)
    assert (verdict.outcome, verdict.test) == ("failed", "test_code.py::test_number")
    assert "return 1" in (tmp_path / "code_here.py").read_text()
    assert tree.run(["test_endless.py"], 2).outcome == "timeout"
    with tree.planted(replace(bug, after="return ]")), pytest.raises(BrokenError, match="SyntaxError"):
        tree.run(["test_code.py"], 60)
    with pytest.raises(BrokenError, match="no file"), tree.planted(BUG):
        pass


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path):
    path, other = tmp_path / "results.jsonl", replace(BUG, name="area/other")
    Results(path).add(judge("c0", BUG, "failed", "test_code.py::test_number", 2.0))
    Results(path).add(Result("c0", other.name, "error", "", 1.0, other.digest, "does not compile"))
    again = Results(path)
    assert [mutant.name for mutant in list_open([BUG, other], again, "c0", is_lenient=False)] == ["area/other"]
    assert list_open([BUG], again, "c1", is_lenient=False) == [BUG]
    changed = replace(BUG, after="return 3")
    assert list_open([changed], again, "c0", is_lenient=False) == [changed]


def test_results_of_other_commits_hold_where_all_is_as_it_was(tmp_path, monkeypatch):
    results = Results(tmp_path / "results.jsonl")
    results.add(judge("c0", BUG, "failed", "test_code.py::test_number", 2.0))
    for has_changed in (True, False):
        monkeypatch.setattr("benchmarks.mutations.has_changed", lambda *_, answer=has_changed: answer)
        assert list_open([BUG], results, "c1", is_lenient=True) == [BUG] * has_changed
    assert results.find("c1", BUG).detail == "at c0"


@pytest.mark.parametrize(
    ("said", "proof", "outcome", "is_clean"),
    [
        ("failed", "", "caught", True),
        ("timeout", "", "timeout", True),
        ("passed", "", "survived", False),
        ("passed", "It only makes things faster.", "equivalent", True),
        ("failed", "It only makes things faster.", "error", False),
    ],
)
def test_what_becomes_of_a_bug(tmp_path, said, proof, outcome, is_clean):
    results, bug = Results(tmp_path / "results.jsonl"), replace(BUG, proof=proof)
    results.add(judge("c0", bug, said, "test_code.py::test_number", 2.0))
    assert results.find("c0", bug).outcome == outcome
    _, words, all_noticed = draw_results([bug], results, "c0")
    assert (words, all_noticed) == (f"1 bugs: 1 {outcome}", is_clean)


def test_options_are_there():
    listed = CliRunner().invoke(main, ["--list", "--only", "runtime/order_after*", "--jobs", "2"])
    assert listed.exit_code == 0, listed.output
    assert "runtime/order_after_dropped" in listed.output.replace("\n", "")
    assert "search/" not in listed.output
