"""one_hot split by its depth: each worker compares the indices with the positions that it has.

The part: `csrc/nnvm/parts/by_position.cc`, described in `tdl_ops/mxnet/position_parts.py`.
"""

from __future__ import annotations

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.conventions import TYPES

KEPT = ("on_value", "off_value")
# The largest depth up to which a type has all whole numbers: no index becomes another position when it is cast.
EXACT = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}


def _is_exact(operator: Operator, inputs: Inputs) -> bool:
    """A result whose type the part's kernel knows; its indices have to be of that, too."""
    return int(operator.attributes["depth"]) <= EXACT.get(_type_of(operator), 0)


def _type_of(operator: Operator) -> str:
    return str(operator.attributes.get("dtype", "float32"))


def _expand(parts: Parts) -> None:
    own = parts.whole.attributes
    attributes = {name: value for name, value in own.items() if name in KEPT}
    inputs = (_convert(parts, _type_of(parts.whole)),)
    parts.last_operator("_tofu_one_hot", attributes | {"extent": own["depth"], "mode": "exact"}, inputs)


def _convert(parts: Parts, dtype: str) -> int:
    """The indices in the type of the result: their fractions, which do not count, are cut before a cast could round them. MXNet's kernel
    looks at the lower 32 bits of whole ones.
    """
    (indices,) = parts.whole.inputs
    given, shape = parts.graph_tensors[indices].dtype, parts.shape(0)
    steps = [] if given == dtype else [("Cast", {"dtype": dtype}, dtype)]
    if steps and given in TYPES:
        steps.insert(0, ("trunc", {}, given))
    elif given == "int64":
        steps.insert(0, ("Cast", {"dtype": "int32"}, "int32"))
    names = (tuple(f"i{d}" for d in range(len(shape))),) * 2
    for op, attributes, made_of in steps:
        name = f"{op.lower()}_{made_of}"
        made = parts.inner_tensor(name, shape, made_of)
        parts.inner_operator(name, op, attributes, (indices,), (made,), names=names)
        indices = made
    return indices


LOWERINGS = {"one_hot": Lowering(_expand, is_possible=_is_exact)}
