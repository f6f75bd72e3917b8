"""Give MXNet's attention operators a dimension for the heads, so that attention can be split by heads.

MXNet stores attention scores in the shape (batch x heads, queries, keys). This pass changes the shape of the scores to
(batch, heads, queries, keys) where possible. Other operators read and write the scores through a reshape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator, Phase, TensorKind
from tofu.mxnet.frontend.origin import Origin, find_origin
from tofu.mxnet.lowerings.conventions import find_access, replace_operators

_REPLACEMENT_BY_PREFIX = {
    "_contrib_interleaved_matmul_": "_tofu_{}",
    "_backward_interleaved_matmul_": "_tofu_{}_backward",
}
"""First letters of the types of MXNet's attention operators, and the types that replace them."""
_SCORE_SLOTS = {"qk": ((), (0,)), "qk_backward": ((0,), ()), "valatt": ((1,), ()), "valatt_backward": ((2,), (1,))}
"""Ending of a new type -> numbers of the inputs and of the outputs that are scores."""
_LINE_WISE_OPERATORS = ("softmax", "log_softmax", "softmin", "Dropout")
"""Operators, besides element-wise and broadcasting ones, that accept data with one more leading dimension."""
_AXES_ATTRIBUTES = ("axes", "lhs_axes", "rhs_axes")
"""Operators with these attributes get no dimension for heads, because the attributes number dimensions."""


def unmerge_heads(graph: Graph) -> Graph:
    """Change the shape of attention scores from (batch x heads, ...) to (batch, heads, ...)."""
    subgraph = _AttentionSearch(graph).find_attention()
    return _Rewriting(graph, subgraph).rewrite() if subgraph.heads_by_tensor else graph


def _find_replacement(operator: Operator) -> str | None:
    for prefix, replacement in _REPLACEMENT_BY_PREFIX.items():
        if operator.op.startswith(prefix):
            return replacement.format(operator.op.removeprefix(prefix))
    return None


def _list_scores(operator: Operator, replacement: str) -> list[int]:
    input_slots, output_slots = _SCORE_SLOTS[replacement.split("_", 3)[3]]  # "_tofu_selfatt_qk" ends with "qk"
    return [*(operator.inputs[slot] for slot in input_slots), *(operator.outputs[slot] for slot in output_slots)]


@dataclass
class _Subgraph:
    heads_by_tensor: dict[int, int] = field(default_factory=dict)
    operators: set[int] = field(default_factory=set)

    def add(self, subgraph: _Subgraph) -> None:
        self.heads_by_tensor |= subgraph.heads_by_tensor
        self.operators |= subgraph.operators


class _AttentionSearch:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operators_by_tensor: dict[int, list[int]] = {}
        for number, operator in enumerate(graph.operators):
            for tensor in dict.fromkeys((*operator.inputs, *operator.outputs)):
                self.operators_by_tensor.setdefault(tensor, []).append(number)

    def find_attention(self) -> _Subgraph:
        attention, visited_tensors = _Subgraph(), set[int]()
        for operator in self.graph.operators:
            replacement = _find_replacement(operator)
            if replacement is not None and replacement.endswith("_qk") and operator.outputs[0] not in visited_tensors:
                heads = int(operator.attributes["heads"])
                subgraph = self._grow_from(operator.outputs[0], heads)
                visited_tensors |= subgraph.heads_by_tensor.keys()
                if self._is_attention(subgraph, heads):
                    attention.add(subgraph)
        return attention

    def _grow_from(self, scores: int, heads: int) -> _Subgraph:
        subgraph, unvisited_tensors = _Subgraph({scores: heads}), [scores]
        while unvisited_tensors:
            tensor = unvisited_tensors.pop()
            for number in self.operators_by_tensor[tensor]:
                tensors = self._list_tensors_with_heads(self.graph.operators[number], tensor)
                new_tensors = [t for t in dict.fromkeys(tensors) if t not in subgraph.heads_by_tensor]
                unvisited_tensors += new_tensors
                subgraph.add(_Subgraph(dict.fromkeys(new_tensors, heads), {number} if tensors else set()))
        return subgraph

    def _is_attention(self, subgraph: _Subgraph, heads: int) -> bool:
        operators = [self.graph.operators[number] for number in subgraph.operators]
        attention_operators = [operator for operator in operators if _find_replacement(operator) is not None]
        has_values = any(str(_find_replacement(operator)).endswith("_valatt") for operator in attention_operators)
        return has_values and all(int(operator.attributes["heads"]) == heads for operator in attention_operators)

    def _list_tensors_with_heads(self, operator: Operator, tensor: int) -> list[int]:
        replacement = _find_replacement(operator)
        if replacement is not None:
            scores = _list_scores(operator, replacement)
            return scores if tensor in scores else []
        tensors = (*operator.inputs, *operator.outputs)
        shapes = [self.graph.tensors[t].shape for t in tensors]
        forward_type, access = operator.op.removeprefix("_backward_"), find_access(self.graph, operator)
        if access is None or any(operator.attributes.get(name, "()") != "()" for name in _AXES_ATTRIBUTES):
            return []
        is_broadcast = forward_type.startswith("broadcast_") and len({len(shape) for shape in shapes}) == 1
        is_line_wise = forward_type in _LINE_WISE_OPERATORS
        has_equal_batches = all(shape[:1] in ((1,), self.graph.tensors[tensor].shape[:1]) for shape in shapes)
        if has_equal_batches and _has_separate_batch(access, tensors.index(tensor)):
            return list(tensors) if access.elementwise or is_broadcast or is_line_wise else []
        return []


def _has_separate_batch(access: OperatorAccess, position: int) -> bool:
    rows_of_tensors = [*(read.rows for read in access.inputs), *(written.rows for written in access.outputs)]
    terms, lower, upper = rows_of_tensors[position][0]
    if len(terms) != 1 or terms[0][1] != 1 or (lower, upper) != (0, 1):
        return False
    return not any(terms[0][0] == axis for rows in rows_of_tensors for row in rows[1:] for axis, _ in row.terms)


class _Rewriting:
    def __init__(self, graph: Graph, subgraph: _Subgraph) -> None:
        self.graph, self.subgraph = graph, subgraph
        self.tensors = list(graph.tensors)
        self.reshaped_copies: dict[int, int] = {}
        outputs = {tensor for number in subgraph.operators for tensor in graph.operators[number].outputs}
        self.tensors_with_heads = outputs & subgraph.heads_by_tensor.keys()
        self.reshaped_tensors = (graph.results & self.tensors_with_heads) | {
            tensor for number in range(len(graph.operators)) for tensor in self._list_inputs_to_reshape(number)
        }
        for tensor in self.tensors_with_heads:
            self.tensors[tensor] = replace(self.tensors[tensor], shape=self._shape_with_heads(tensor))

    def rewrite(self) -> Graph:
        operators = replace_operators(self.graph, self._rewire)
        results = {t: self.reshaped_copies[t] if t in self.tensors_with_heads else t for t in self.graph.results}
        return replace(
            self.graph,
            tensors=tuple(self.tensors),
            operators=operators,
            outputs=tuple(results[t] for t in self.graph.outputs),
            gradients={variable: results[t] for variable, t in self.graph.gradients.items()},
        )

    def _rewire(self, number: int, operator: Operator) -> list[Operator]:
        inputs_to_reshape = self._list_inputs_to_reshape(number)
        # Only variables are reshaped here. The operators that compute other tensors are followed by a reshape.
        reshapes = [self._reshape(t, operator.phase) for t in inputs_to_reshape if t not in self.reshaped_copies]
        inputs = tuple(self.reshaped_copies[t] if t in inputs_to_reshape else t for t in operator.inputs)
        rewired = replace(operator, inputs=inputs)
        return [
            *reshapes,
            _add_heads(rewired) if number in self.subgraph.operators else rewired,
            *(self._reshape(t, operator.phase) for t in operator.outputs if t in self.reshaped_tensors),
        ]

    def _list_inputs_to_reshape(self, number: int) -> list[int]:
        operator, needs_heads = self.graph.operators[number], number in self.subgraph.operators
        candidates = [t for t in dict.fromkeys(operator.inputs) if t in self.subgraph.heads_by_tensor]
        return [t for t in candidates if needs_heads != (t in self.tensors_with_heads)]

    def _shape_with_heads(self, tensor: int) -> tuple[int, ...]:
        merged, *line = self.graph.tensors[tensor].shape
        heads = min(merged, self.subgraph.heads_by_tensor[tensor])  # 1 if all heads share it
        return (merged // heads, heads, *line)

    def _reshape(self, tensor: int, phase: Phase) -> Operator:
        original = self.graph.tensors[tensor]
        ending, shape = (
            ("merged", original.shape)
            if tensor in self.tensors_with_heads
            else ("heads", self._shape_with_heads(tensor))
        )
        name, position = f"{original.name}/{ending}", len(self.tensors)
        self.tensors.append(replace(self.tensors[tensor], name=name, shape=shape, kind=TensorKind.INTERMEDIATE))
        self.reshaped_copies[tensor] = position
        return Operator(name, "Reshape", {"shape": str(shape)}, (tensor,), (position,), phase, is_added=True)


def _add_heads(operator: Operator) -> Operator:
    replacement, node_origin = _find_replacement(operator), find_origin(operator)
    if replacement is not None:
        heads = {"heads": operator.attributes["heads"]}
        return replace(operator, op=replacement, attributes=heads, ignored=(), origin=Origin(replaced=node_origin.node))
    axis = int(operator.attributes.get("axis", "-1"))
    if axis < 0:
        return operator
    new_axis = {"axis": str(axis + 1)}
    origin = replace(node_origin, rewritten=new_axis)
    return replace(operator, attributes={**operator.attributes, **new_axis}, origin=origin)
