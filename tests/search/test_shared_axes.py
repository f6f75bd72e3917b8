from dataclasses import replace

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import Combine, analyse
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.search.shared_axes import name_axes, share_axes

SUM = ({"axis": "(1,)", "keepdims": "True"}, [(6, 4)], [(6, 1)])
SQUARE = ({}, [(6, 1)], [(6, 1)])


def access(op, attributes, inputs, outputs):
    return analyse(DESCRIPTIONS[op], attributes, inputs, outputs)


def test_axes_are_named_after_their_dimensions():
    named = name_axes(access("sum", *SUM), (("b", "s"), ("b", "")))
    assert named.axes == ("b", "s")
    assert named.outputs[0].combine == (Combine.CONCAT, Combine.REDUCE)
    for names, axes in (
        ((("b", ""), ("b", "")), ("b",)),
        ((("b", "s"), ("c", "")), ("s",)),
        ((("b", "b"), ("b", "")), ()),
    ):
        assert name_axes(access("sum", *SUM), names).axes == axes


def test_attributes_are_bound_by_the_names_of_the_description():
    named = name_axes(access("Reshape", {"shape": "(2, 3, 4)"}, [(6, 4)], [(2, 3, 4)]), (("", "x"), ("g", "", "x")))
    assert named.axes == ("g", "x")
    assert named.worker_attributes({"x": (0, 2)}, [(6, 2)], [(2, 3, 2)])["shape"] == "(2, 3, 2)"


def test_parts_without_an_axis_are_repeated_along_it():
    shapes = [(6, 4), (6, 1), (6, 1)]
    tensors = tuple(
        Tensor(f"t{n}", shape, "float32", 4, TensorKind.INTERMEDIATE, is_inner=n == 1) for n, shape in enumerate(shapes)
    )
    first = Operator("w/sum", "sum", SUM[0], (0,), (1,), Phase.FORWARD, is_inner=True)
    last = Operator("w", "square", {}, (1,), (2,), Phase.FORWARD, leader=0, dimension_names=(("b", ""), ("b", "")))
    found = [
        name_axes(access("sum", *SUM), (("b", "s"), ("b", ""))),
        name_axes(access("square", *SQUARE), last.dimension_names),
    ]
    total, square = share_axes(Graph(tensors, (first, last), (2,)), found)
    assert total.axes == square.axes == ("b", "s")
    assert square.extents == (6, 4)
    assert square.outputs[0].combine == (Combine.CONCAT, Combine.REPLICATE)
    assert square.worker_attributes({"s": (0, 2)}, [(6, 1)], [(6, 1)]) == {}
    # A part with its own description must have the axis.
    strict, _ = share_axes(Graph(tensors, (first, replace(last, dimension_names=())), (2,)), found)
    assert strict.axes == ("b",)
