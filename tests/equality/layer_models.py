"""Models of a single operator: one for each case that descriptions are verified with."""

from __future__ import annotations

import mxnet as mx

from tdl_ops.mxnet.case import Case
from tests.models.plain import Model
from tofu.verification.numbers import Fixed


def single_layer(case: Case, dtype: str = "float64") -> Model:
    """The operator, called `layer`, between others, so that all of its gradients count: its inputs are products, its outputs' gradients
    differ from cell to cell. A loss that ignores those ends the model, as in use: MXNet may write its gradient over an output that is none
    of the model's, and reads it again under out_grad.
    """
    create = getattr(mx.sym, case.op)
    names = create(name="layer", **case.attributes).list_inputs()
    given = {}
    for drawn, numbers, name in zip(case.draw_inputs(), case.numbers, names, strict=True):
        is_label = name.endswith("label") or isinstance(numbers, Fixed) or numbers.is_whole
        given[f"input{len(given)}_{'label' if is_label else 'value'}"] = drawn
    variables = [mx.sym.Variable(name, shape=drawn.shape, dtype=dtype) for name, drawn in given.items()]
    states = create(*variables, **case.attributes).list_auxiliary_states()
    inputs = [v if v.name in states or v.name.endswith("label") else 1.5 * v for v in variables]
    types = [drawn.dtype for drawn in given.values()]
    inputs = [mx.sym.Cast(v, dtype=t.name) if t.kind == "i" else v for v, t in zip(inputs, types, strict=True)]
    outputs = create(*inputs, name="layer", **case.attributes)
    ends = case.op == "SoftmaxOutput"
    losses = [output if ends else mx.sym.MakeLoss(mx.sym.sin(output)) for output in outputs]
    shapes = {name: drawn.shape for name, drawn in given.items() if name.endswith("label")}
    return Model(mx.sym.Group(losses), shapes, 2, given=given)
