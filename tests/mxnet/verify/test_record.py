import json
from dataclasses import replace
from itertools import count

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.errors import InternalError
from tofu.mxnet.verify import Case, verify_case, verify_operator
from tofu.mxnet.verify.campaign import verify_cases
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.coverage import count_coverage, count_kinds
from tofu.mxnet.verify.record import (
    NEVER_COMPUTED,
    RECORD,
    _digest_description,
    _make_entry,
    digest_of,
    digest_of_kernels,
    make_entries,
    read_record,
    write_record,
)
from tofu.verification.comparison import Compared, Comparison
from tofu.verification.report import NodeReport

CASES = [Case("FullyConnected", {"num_hidden": 5}, [(3, 7), (5, 7), (5,)]), Case("tanh", {}, [(5, 7), (5, 7)])]


@pytest.fixture(scope="module")
def results():
    return list(verify_cases(CASES, examples=3))


def test_the_record_is_current():
    """If not: python -m tofu verify --record."""
    recorded = set(json.loads(RECORD.read_text()))
    assert recorded - set(DESCRIPTIONS) == set()
    assert recorded - set(read_record()) == set(), "their descriptions or kernels have changed since"


def test_every_recorded_output_was_compared():
    assert {name: entry.missed for name, entry in read_record().items() if not entry.is_verified} == {}
    assert count_kinds(read_record().values())["nothing"] == 0


@pytest.mark.parametrize("op", ["Embedding", "softmax_cross_entropy"])
def test_forbidden_outputs_are_refused_by_mxnet(op):
    """They are described as unwritten, which cannot be compared."""
    assert f"_backward_{op}" in NEVER_COMPUTED
    case = next(case for case in load_cases() if case.op == op)
    with pytest.raises(RuntimeError, match=r"calculate data gradient|Cannot take gradient wrt label"):
        verify_case(replace(case, wrt=None))


def test_an_output_never_compared_is_missed():
    found = Comparison(0, Compared.NUMBERS, 5)
    half = NodeReport("tanh", 0.0, "", (), (), outputs=(0, 1), compared=(found,))
    assert _make_entry("tanh", [(half, 3)]).missed == (1,)
    assert not _make_entry("tanh", [(half, 3)]).is_verified
    whole = replace(half, compared=(found, Comparison(1, Compared.RELATION, 5)))
    entry = _make_entry("tanh", [(half, 3), (whole, 4)])
    assert (entry.is_verified, entry.compared, entry.signatures) == (True, "a relation", 7)
    assert entry.cells == {"numbers": 10, "a relation": 5}
    counts = count_kinds([entry, None, _make_entry("tanh", [(half, 3)])])
    assert {kind: count for kind, count in counts.items() if count} == {"a relation": 1, "nothing": 2}


def test_a_strategy_that_was_not_run_in_parts_is_not_recorded():
    report = verify_operator("tanh", {}, [(5, 7)], parts=(6,), wrt=())
    assert [(strategy.axis, strategy.cells) for strategy in report.nodes[0].strategies] == [("i0", 0), ("i1", 35)]
    assert _make_entry("tanh", [(report.nodes[0], 1)]).axes == ("i1",)


def test_entries_state_what_was_verified(results):
    entries = make_entries(results)
    assert set(entries) == {"FullyConnected", "_backward_FullyConnected"}
    entry = entries["FullyConnected"]
    assert entry.axes == ("b", "h", "k0")
    assert entry.reduced == ("k0",)
    assert (entry.is_elementwise, entry.is_opaque, entry.compared) == (False, False, "numbers")
    assert entry.cells == {"numbers": 15}
    assert entry.missed == ()
    assert entry.signatures == 1 + results[0].trials.verified


def test_an_operator_with_a_problem_has_no_entry(results):
    assert results[1].problems
    assert "tanh" not in make_entries(results)


@pytest.mark.parametrize("changed", ["digest_of", "digest_of_kernels"])
def test_entries_of_changed_descriptions_and_kernels_are_stale(results, changed, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_record(make_entries(results), path)
    assert set(read_record(path)) == {"FullyConnected", "_backward_FullyConnected"}
    monkeypatch.setattr(f"tofu.mxnet.verify.record.{changed}", lambda op: "another")
    assert read_record(path) == {}
    path.write_text(json.dumps({"tanh": {"digest": digest_of("tanh"), "checked": "numbers"}}))  # another version
    assert read_record(path) == {}


SIGN = """
from tdl_ops import shared

@op("sign")
def sign(x):
    return lambda *i: shared.scale(x[i]) * 0.5
"""


def test_digests_cover_the_code_of_a_description(tmp_path):
    counter = count()

    def digest(text, shared="def scale(cell):\n    return 2 * cell\n"):
        folder = tmp_path / str(next(counter)) / "tdl_ops"
        (folder / "own").mkdir(parents=True)
        (folder / "shared.py").write_text(shared)
        (folder / "own" / "signs.py").write_text(text)
        return _digest_description(folder / "own" / "signs.py")

    before = digest(SIGN)
    assert digest('"""Signs."""\n# moved\n' + SIGN) == before
    changed = [digest(SIGN.replace("0.5", "0.25")), digest(SIGN, "def scale(cell):\n    return 3 * cell\n")]
    assert len({before, *changed}) == 3


def test_digests_cover_own_kernels(tmp_path):
    assert digest_of_kernels("tanh") == ""
    assert digest_of_kernels("_tofu_softmax_sum") == digest_of_kernels("_tofu_softmax_maximum")
    included = {
        "nnvm/parts/rise.cc": '#include "cuda/rise.cuh"\n#include "nnvm/parts/loops.h"\nRegister("_tofu_rise");',
        "cuda/rise.cuh": '#include "numbers.cuh"\nint rule;',
        "cuda/numbers.cuh": "int number;",
        "nnvm/parts/loops.h": "int one;",
        "nnvm/parts/loops.cc": "",
    }
    for name, text in {**included, "nnvm/parts/other.cc": "int other;"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = digest_of_kernels("_tofu_rise", tmp_path)
    (tmp_path / "nnvm/parts/other.cc").write_text("int another;")
    (tmp_path / "nnvm/parts/loops.h").write_text("/* a\n comment */ int\n one;  // and another")
    assert digest_of_kernels("_tofu_rise", tmp_path) == before
    for name, text in included.items():
        (tmp_path / name).write_text(f"{text}\nint another;")
        assert digest_of_kernels("_tofu_rise", tmp_path) != before
        before = digest_of_kernels("_tofu_rise", tmp_path)
    assert digest_of_kernels("_tofu_rise", tmp_path / "not_installed") == ""
    with pytest.raises(InternalError, match="registers _tofu_fall"):
        digest_of_kernels("_tofu_fall", tmp_path)


def test_coverage_counts_what_was_verified(results):
    counts = count_coverage(["FullyConnected", "tanh", "Custom"], make_entries(results))
    assert (counts.total, counts.described, counts.verified, counts.reduced) == (3, 2, 1, 1)
    assert counts.without_strategy == ("tanh", "Custom")
