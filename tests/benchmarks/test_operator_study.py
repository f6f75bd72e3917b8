"""The study of section 4.1: every line about an operator of TensorFlow is true, and the page counts the lines."""

from collections import Counter
from dataclasses import replace
from zipfile import ZipFile

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.evaluation import operator_study
from benchmarks.evaluation.__main__ import FOLDER
from benchmarks.evaluation.operator_study import Studied, count, list_study, read_rows
from benchmarks.evaluation.tables import read_table
from benchmarks.evaluation.tensorflow import DESCRIPTIONS, kernels, look_up
from benchmarks.evaluation.tensorflow.check import HERE, find_kind, find_problems, trace_here
from benchmarks.evaluation.tensorflow.kernel_table import KERNELS, Kernel
from benchmarks.evaluation.tensorflow.kernels import compare, draw, read_compared
from benchmarks.evaluation.tensorflow.registered import Registered, read_registered, read_wheel
from tofu.tdl import interpret

ROWS = read_rows()


@pytest.mark.parametrize("kind", sorted({row.kind for row in ROWS}))
def test_every_line_is_true(kind):
    assert [problem for row in ROWS if row.kind == kind for problem in find_problems(row)] == []


def test_every_counted_operator_has_one_line_and_every_description_of_the_study_is_used():
    assert sorted(row.name for row in ROWS) == sorted(one.name for one in read_registered("1.3.0") if one.is_counted)
    assert {row.name for row in ROWS if row.described_by == HERE} == set(DESCRIPTIONS)


def row_of(name):
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize(
    ("name", "wrong", "problem"),
    [
        ("Exp", {"described_by": "mxnet:exponential"}, "mxnet has no description exponential"),
        ("Exp", {"described_by": "mxnet:transpose"}, "its description is arithmetic"),
        ("Exp", {"described_by": ""}, "by no description"),
        ("Transpose", {"described_by": "mxnet:exp"}, "mxnet:exp is element-wise"),
        ("Transpose", {"kind": "opaque"}, "mxnet:transpose is not opaque"),
        ("Svd", {"kind": "arithmetic"}, "mxnet:_npi_svd is opaque"),
        ("FFT", {"kind": "elementwise"}, "its description is opaque"),
        ("ApplyAdam", {"kind": "arithmetic"}, "its description is elementwise"),
    ],
)
def test_a_line_that_is_not_true_is_noticed(name, wrong, problem):
    assert problem in " ".join(find_problems(replace(row_of(name), **wrong)))


def test_operators_in_two_tables_or_in_none_are_refused():
    counted = {name: Registered(name, "math", 1, False, False) for name in ("Exp", "Log")}
    join = operator_study.join_tables
    assert [row.name for row in join({"a": {"Exp": ""}, "b": {"Log": ""}}, counted)] == ["Exp", "Log"]
    for tables in (
        {"a": {"Exp": ""}},
        {"a": {"Exp": "", "Log": ""}, "b": {"Exp": ""}},
        {"a": {"Exp": "", "Log": "", "Sin": ""}},
    ):
        with pytest.raises(ValueError, match="one line in described"):
            list(join(tables, counted))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("FloorDiv", "elementwise"), ("BiasAdd", "elementwise"), ("DiagPart", "arithmetic"), ("Cross", "opaque")],
)
def test_kinds_are_found_in_what_is_read(name, kind):
    assert find_kind(trace_here(name)) == kind


def test_what_is_counted_computes_tensors():
    one = Registered("Exp", "math", 1, False, False)
    assert one.is_counted
    others = [
        {"module": "io"},
        {"is_deprecated": True},
        {"has_handles": True},
        {"name": "_Exp"},
        {"name": "VariableV2"},
    ]
    assert not any(replace(one, **other).is_counted for other in others)
    gradients = {"ReluGrad", "Conv2DBackpropInput", "MaxPoolGradWithArgmax", "FakeQuantWithMinMaxVarsGradient"}
    assert not any(replace(one, name=name).is_counted for name in gradients)
    assert all(replace(one, name=name).is_counted for name in ("StopGradient", "ApplyGradientDescent"))


DEFINITIONS = """# op {
#   name: "Twice"
#   input_arg {
#     name: "x"
#     type_attr: "T"
#   }
#   output_arg {
#     name: "y"
#     type_attr: "T"
#   }
# }
# op {
#   name: "Read"
#   input_arg {
#     name: "file"
#     type: DT_STRING
#   }
#   deprecation {
#     version: 8
#   }
# }
"""


def test_a_wheel_is_read_without_being_executed(tmp_path):
    with ZipFile(tmp_path / "tensorflow.whl", "w") as wheel:
        wheel.writestr("tensorflow/python/ops/gen_math_ops.py", f"raise SystemExit\n{DEFINITIONS}")
        wheel.writestr("tensorflow/python/ops/math_ops.py", DEFINITIONS)
    found = list(read_wheel(tmp_path / "tensorflow.whl"))
    assert found == [Registered("Twice", "math", 1, False, False), Registered("Read", "math", 1, True, True)]


def test_the_page_counts_the_lines(tmp_path):
    result = CliRunner().invoke(operator_study.main, ["--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    studied = read_table(tmp_path / "operators.csv", Studied)
    assert [(one.name, one.kind, one.described_by) for one in studied] == [
        (row.name, row.kind, row.described_by) for row in ROWS
    ]
    kinds = Counter(row.kind for row in ROWS)
    lines = list(list_study(studied))
    assert f"| operators | 341 | {len(ROWS)} | 139 | 139 |" in lines
    described = len(ROWS) - kinds["sparse"] - kinds["dynamic_shape"] - kinds["data_dependent"]
    assert any(line.startswith(f"| described | 257 | {described} | 134 |") for line in lines)
    assert count(studied)["ours"] == described + sum(
        bool(row.described_by) for row in ROWS if row.kind == "data_dependent"
    )
    assert "reconstructions" in " ".join(lines)


def test_the_committed_page_is_of_the_lines_that_are_there():
    committed = read_table(FOLDER / operator_study.TABLE, Studied)
    assert committed == [Studied(row.name, row.module, row.kind, row.described_by) for row in ROWS]
    page = (FOLDER / "README.md").read_text().splitlines()
    rows = [line.split("|")[:4] for line in list_study(committed) if line.startswith("|")]
    assert len(rows) == 11
    assert all(row in [line.split("|")[:4] for line in page] for row in rows)


def interpret_here(name, *inputs):
    description, signature = look_up(name)
    return interpret(description, signature.attributes, inputs, signature.outputs)


def test_blocks_are_moved_as_numpy_moves_them():
    data = np.random.RandomState(0).rand(12, 3, 4, 5)
    blocks = data.reshape(2, 2, 3, 3, 4, 5).transpose(2, 3, 0, 4, 1, 5).reshape(3, 6, 8, 5)
    (found,) = interpret_here("BatchToSpaceND", data)
    np.testing.assert_array_equal(found, blocks[:, :5, 1:])
    padded = np.zeros((3, 6, 8, 5))
    padded[:, :5, 1:] = found
    (back,) = interpret_here("SpaceToBatchND", found)
    np.testing.assert_array_equal(
        back, padded.reshape(3, 3, 2, 4, 2, 5).transpose(2, 4, 0, 1, 3, 5).reshape(data.shape)
    )


def test_losses_over_classes_are_those_of_softmax():
    logits = np.random.RandomState(0).randn(4, 5)
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([0, 4, 2, 2])
    loss, gradient = interpret_here("SparseSoftmaxCrossEntropyWithLogits", logits, labels)
    np.testing.assert_allclose(loss, -np.log(softmax[range(4), labels]), rtol=1e-12)
    np.testing.assert_allclose(gradient, softmax - np.eye(5)[labels], atol=1e-15)


def test_comparisons_with_kernels_are_of_the_descriptions_that_are_there():
    assert {one.name for one in read_compared()} == set(KERNELS) <= set(DESCRIPTIONS)


def test_comparisons_of_changed_descriptions_do_not_count(monkeypatch):
    monkeypatch.setattr(kernels, "digest_descriptions", lambda: "another")
    assert read_compared() == []


def test_numbers_are_drawn_as_a_kernel_takes_them():
    arguments = "x:f y:i=<3 z:l=~4 low:f=-1 q:b list.0 list.1"
    shapes = [(2,), (50,), (4,), (), (50,), (), (3,)]
    drawn = {name: (kind, numbers) for name, kind, numbers in draw(arguments, shapes, np.random.RandomState(0))}
    assert [kind for kind, _ in drawn.values()] == ["f", "i", "l", "f", "b", "d", "d"]
    assert set(drawn["y"][1]) == {0, 1, 2}
    assert sorted(drawn["z"][1]) == [0, 1, 2, 3]
    assert drawn["low"][1] == -1
    assert drawn["q"][1].max() > 127
    assert [drawn[name][1].shape for name in drawn] == shapes


def test_a_description_that_differs_from_the_kernel_is_noticed(monkeypatch):
    kernel = Kernel("x y")
    for factor, differs in ((1.0, False), (1.001, True)):
        monkeypatch.setattr(
            kernels, "run_kernel", lambda _, __, ___, given, f=factor: [f * (given[0][2] - given[1][2]) ** 2]
        )
        assert bool(compare(None, "SquaredDifference", kernel)) is differs
