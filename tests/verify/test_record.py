"""The record and the coverage that is counted from it."""

import inspect
import json

import pytest

from tofu.tdl import lookup, registered
from tofu.verify import Case
from tofu.verify.campaign import verify_cases
from tofu.verify.coverage import count_coverage, count_lines, read_operator_sets
from tofu.verify.record import RECORD, digest_of, make_entries, read_record, write_record

CASE = Case("FullyConnected", {"num_hidden": 5}, [(3, 7), (5, 7), (5,)])


@pytest.fixture(scope="module")
def results():
    return list(verify_cases([CASE], examples=3))


def test_the_record_has_nothing_else():
    assert set(json.loads(RECORD.read_text())) <= set(registered())


def test_entries_say_what_was_verified(results):
    entries = make_entries(results)
    assert set(entries) == {"FullyConnected", "_backward_FullyConnected"}
    entry = entries["FullyConnected"]
    assert entry.axes == ("b", "h", "k0")
    assert entry.reduced == ("k0",)
    assert (entry.is_elementwise, entry.is_opaque, entry.checked) == (False, False, "numbers")
    assert entry.signatures == 1 + results[0].trials.verified


def test_an_operator_with_a_problem_has_no_entry(results):
    (broken,) = verify_cases([Case("tanh", {}, [(5, 7), (5, 7)])])
    assert broken.problems
    assert "tanh" not in make_entries([*results, broken])


def test_a_changed_description_is_not_counted(results, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_record(make_entries(results), path)
    assert set(read_record(path)) == {"FullyConnected", "_backward_FullyConnected"}
    monkeypatch.setattr("tofu.verify.record._digest_file", lambda path: "another")
    assert read_record(path) == {}


def test_a_description_depends_on_what_its_file_imports():
    assert digest_of("Pooling") != digest_of("Pooling_v1")
    assert digest_of("sin") == digest_of("cos")


def test_sets_of_operators():
    sets = read_operator_sets()
    assert {name: len(set(operators)) for name, operators in sets.items()} == {
        "mxnet_0_11": 139,
        "mxnet_1_9_1_user_facing": 174,
    }


def test_coverage_counts_what_was_verified(results):
    counts = count_coverage(["FullyConnected", "tanh", "Custom"], make_entries(results))
    assert (counts.total, counts.described, counts.verified, counts.reduced) == (3, 2, 1, 1)
    assert counts.without_strategy == ("tanh", "Custom")


def test_lines_of_descriptions():
    median, largest, name = count_lines()
    assert median <= 3
    assert largest < 60
    source = inspect.getsource(lookup(name).function)
    assert largest == sum(bool(line.strip()) for line in source[source.index("def ") :].splitlines())
