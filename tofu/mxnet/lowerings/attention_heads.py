"""Pass that gives MXNet's attention operators a dimension for the heads, so that attention can be split by heads.

MXNet's scores have the shape (batch x heads, queries, keys). This pass changes it to (batch, heads, queries, keys), from
the operators that compute scores to those that use them. Other readers and writers get a reshape. The operators are in
`csrc/nnvm/parts/attention.cc`, and `tdl_ops/mxnet/attention.py` describes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import OperatorAccess, analyse
from tofu.errors import DescriptionError, UnsupportedError
from tofu.graph import Graph, Operator, Phase, TensorKind
from tofu.mxnet.frontend.origin import Origin, find_origin

_PREFIXES = {"_contrib_interleaved_matmul_": "_tofu_{}", "_backward_interleaved_matmul_": "_tofu_{}_backward"}
"""Prefix of MXNet's attention operators -> name of the replacements."""
_SCORES = {"qk": ((), (0,)), "qk_backward": ((0,), ()), "valatt": ((1,), ()), "valatt_backward": ((2,), (1,))}
"""Operator -> positions of the inputs, and of the outputs, that are scores or weights of the same shape."""
_FOLLOWERS = ("softmax", "log_softmax", "softmin", "Dropout")
"""Operators that allow another leading dimension, besides element-wise and broadcasting ones."""


def unmerge_heads(graph: Graph) -> Graph:
    """Return the graph with a dimension for the heads where scores are computed and used. Tensors keep their positions."""
    group = _Scores(graph).find()
    return _Rewriting(graph, group).rewrite() if group.heads else graph


def _own_name(operator: Operator) -> str | None:
    for prefix, own in _PREFIXES.items():
        if operator.op.startswith(prefix):
            return own.format(operator.op.removeprefix(prefix))
    return None


def _list_scores(operator: Operator, own: str) -> list[int]:
    inputs, outputs = _SCORES[own.split("_", 3)[3]]
    return [*(operator.inputs[n] for n in inputs), *(operator.outputs[n] for n in outputs)]


@dataclass
class _Group:
    """Tensor -> number of heads, and the operators that compute or read these tensors with a dimension for the heads."""

    heads: dict[int, int] = field(default_factory=dict)
    operators: set[int] = field(default_factory=set)

    def add(self, other: _Group) -> None:
        self.heads |= other.heads
        self.operators |= other.operators


class _Scores:
    """Search for scores, and for tensors that element-wise or line-wise operators compute from them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users: dict[int, list[int]] = {}
        for number, operator in enumerate(graph.operators):
            for tensor in dict.fromkeys((*operator.inputs, *operator.outputs)):
                self.users.setdefault(tensor, []).append(number)

    def find(self) -> _Group:
        found, seen = _Group(), set[int]()
        for operator in self.graph.operators:
            own = _own_name(operator)
            if own is not None and own.endswith("_qk") and operator.outputs[0] not in seen:
                group = self._grow(operator.outputs[0], int(operator.attributes["heads"]))
                seen |= group.heads.keys()
                if self._is_attention(group, int(operator.attributes["heads"])):
                    found.add(group)
        return found

    def _grow(self, first: int, heads: int) -> _Group:
        group, waiting = _Group({first: heads}), [first]
        while waiting:
            tensor = waiting.pop()
            for number in self.users[tensor]:
                beside = self._list_beside(self.graph.operators[number], tensor)
                new = [t for t in dict.fromkeys(beside) if t not in group.heads]
                waiting += new
                group.add(_Group(dict.fromkeys(new, heads), {number} if beside else set()))
        return group

    def _is_attention(self, group: _Group, heads: int) -> bool:
        used = [operator for n in group.operators if _own_name(operator := self.graph.operators[n])]
        is_weighing = any(str(_own_name(operator)).endswith("_valatt") for operator in used)
        return is_weighing and all(int(operator.attributes["heads"]) == heads for operator in used)

    def _list_beside(self, operator: Operator, tensor: int) -> list[int]:
        """Return the operator's tensors that need a dimension for the heads if `tensor` gets one; none if impossible."""
        own = _own_name(operator)
        if own is not None:
            scores = _list_scores(operator, own)
            return scores if tensor in scores else []
        tensors = (*operator.inputs, *operator.outputs)
        shapes = [self.graph.tensors[t].shape for t in tensors]
        name, count = operator.op.removeprefix("_backward_"), len(operator.inputs)
        try:
            access = analyse(DESCRIPTIONS[operator.op], operator.attributes, shapes[:count], shapes[count:])
        except (KeyError, UnsupportedError, DescriptionError):  # the operator is refused later, or replicated
            return []
        is_broadcast = name.startswith("broadcast_") and len({len(shape) for shape in shapes}) == 1
        is_follower = name in _FOLLOWERS and operator.attributes.get("axes", "()") == "()"
        has_first = all(shape[:1] in ((1,), self.graph.tensors[tensor].shape[:1]) for shape in shapes)
        is_split = _is_split_alone(access, tensors.index(tensor))
        return list(tensors) if has_first and is_split and (access.elementwise or is_broadcast or is_follower) else []


def _is_split_alone(access: OperatorAccess, position: int) -> bool:
    rows_of_tensors = [*(read.rows for read in access.inputs), *(written.rows for written in access.outputs)]
    terms, lower, upper = rows_of_tensors[position][0]
    if len(terms) != 1 or terms[0][1] != 1 or (lower, upper) != (0, 1):
        return False
    return not any(terms[0][0] == axis for rows in rows_of_tensors for row in rows[1:] for axis, _ in row.terms)


class _Rewriting:
    """Rewriting of the graph.

    Tensors that the group's operators compute get a dimension for the heads. The group's other tensors, and tensors that
    operators outside of the group read, exist in both shapes.
    """

    def __init__(self, graph: Graph, group: _Group) -> None:
        self.graph, self.group = graph, group
        self.tensors = list(graph.tensors)
        self.operators: list[Operator] = []
        self.other: dict[int, int] = {}  # tensor -> reshaped copy
        self.apart = {t for n in group.operators for t in graph.operators[n].outputs if t in group.heads}
        self.needed = (graph.results & self.apart) | {
            t for n in range(len(graph.operators)) for t in self._list_other(n)
        }
        for tensor in self.apart:
            self.tensors[tensor] = replace(self.tensors[tensor], shape=self._shape_apart(tensor))

    def rewrite(self) -> Graph:
        position_of: dict[int, int] = {}
        for number, operator in enumerate(self.graph.operators):
            for tensor in self._list_other(number):
                self._reshape(tensor, operator.phase)  # a variable; other tensors were reshaped after their writer
            others = self._list_other(number)
            forward = None if operator.forward is None else position_of[operator.forward]
            inputs = tuple(self.other[t] if t in others else t for t in operator.inputs)
            moved = replace(operator, inputs=inputs, forward=forward)
            position_of[number] = len(self.operators)
            self.operators.append(_change(moved) if number in self.group.operators else moved)
            for tensor in operator.outputs:
                if tensor in self.needed:
                    self._reshape(tensor, operator.phase)
        results = {t: self.other[t] if t in self.apart else t for t in self.graph.results}
        return replace(
            self.graph,
            tensors=tuple(self.tensors),
            operators=tuple(self.operators),
            outputs=tuple(results[t] for t in self.graph.outputs),
            gradients={variable: results[t] for variable, t in self.graph.gradients.items()},
        )

    def _list_other(self, number: int) -> list[int]:
        operator, is_inside = self.graph.operators[number], number in self.group.operators
        wanted = [t for t in dict.fromkeys(operator.inputs) if t in self.group.heads]
        return [t for t in wanted if is_inside != (t in self.apart)]

    def _shape_apart(self, tensor: int) -> tuple[int, ...]:
        first, *rest = self.graph.tensors[tensor].shape
        heads = min(first, self.group.heads[tensor])  # 1 if all heads share it
        return (first // heads, heads, *rest)

    def _reshape(self, tensor: int, phase: Phase) -> None:
        if tensor in self.other:
            return
        whole = self.graph.tensors[tensor]
        ending, shape = ("merged", whole.shape) if tensor in self.apart else ("heads", self._shape_apart(tensor))
        name, position = f"{whole.name}/{ending}", len(self.tensors)
        self.tensors.append(replace(self.tensors[tensor], name=name, shape=shape, kind=TensorKind.INTERMEDIATE))
        self.operators.append(
            Operator(name, "Reshape", {"shape": str(shape)}, (tensor,), (position,), phase, is_added=True)
        )
        self.other[tensor] = position


def _change(operator: Operator) -> Operator:
    own = _own_name(operator)
    if own is not None:
        origin = Origin(replaced=find_origin(operator).node)
        return replace(operator, op=own, attributes={"heads": operator.attributes["heads"]}, ignored=(), origin=origin)
    axis = int(operator.attributes.get("axis", "-1"))
    if axis < 0:
        return operator
    moved = {"axis": str(axis + 1)}
    origin = replace(find_origin(operator), rewritten=moved)
    return replace(operator, attributes={**operator.attributes, **moved}, origin=origin)
