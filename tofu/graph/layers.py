"""Layers of a model, which are the rows of a printed plan.

A layer has the operators from one line of the user's program, in one scope such as `encoder/block_0`. If lines are
unknown, a layer is a forward operator with its gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath

from tofu.errors import find_similar_names
from tofu.graph.semantic import Graph, Operator, Phase


def find_layers(graph: Graph) -> list[int]:
    """Return, for each operator, the number of the first operator in its layer."""
    layers: list[int] = []
    layer_by_line: dict[tuple[str, str], int] = {}
    for position, operator in enumerate(graph.operators):
        if operator.find_line is None:
            layers.append(position if operator.forward is None else operator.forward)
        elif any(place := (operator.scope, operator.line)):
            layers.append(layer_by_line.setdefault(place, position))
        else:
            layers.append(position)
    return layers


def name_layers(graph: Graph) -> dict[int, str]:
    """Return {number of the layer's first operator: name of the layer}."""
    first_operators = {position: graph.operators[position] for position in dict.fromkeys(find_layers(graph))}
    short_names = {
        position: _join_words(operator.scope, PurePath(operator.line).name) if operator.find_line else operator.name
        for position, operator in first_operators.items()
    }
    counts = Counter(short_names.values())
    return {
        position: name if counts[name] == 1 and name else _name_uniquely(first_operators[position])
        for position, name in short_names.items()
    }


def _join_words(*words: str) -> str:
    return " ".join(filter(None, words))


def _name_uniquely(operator: Operator) -> str:
    return _join_words(operator.scope, operator.line) if operator.line else operator.name


def list_members(graph: Graph, name: str) -> list[Operator]:
    """Return the operators of the layer `name`, or [] if no layer has this name.

    `name` is a name in the first column of a printed plan, a scope such as `encoder`, or a source line such as
    `train.py:7`. A scope also contains the operators of inner scopes, such as `encoder/block_0`. The end of a scope is
    enough, such as `block_0`, if no other scope ends like this.
    """
    operators = [operator for operator in graph.operators if not operator.is_inner]
    layer = next((number for number, layer_name in name_layers(graph).items() if layer_name == name), None)
    if layer is not None:
        return [graph.operators[position] for position, number in enumerate(find_layers(graph)) if number == layer]
    ends = [scope for scope in list_scopes(graph) if _ends_with(scope, name)]
    scope = ends[0] if len(ends) == 1 else name
    in_scope = [operator for operator in operators if f"{operator.scope}/".startswith(f"{scope}/")]
    return in_scope or [operator for operator in operators if operator.line and _ends_with(operator.line, name)]


def _ends_with(line: str, name: str) -> bool:
    return f"/{line}".endswith(f"/{name}")


def list_scopes(graph: Graph) -> list[str]:
    """Return the scopes of the operators, such as `encoder` and `encoder/block_0`."""
    return list(dict.fromkeys(operator.scope for operator in graph.operators if operator.scope))


def find_operator(graph: Graph, name: str, count_points: Callable[[Operator], int]) -> Operator | None:
    """Return the operator `name`, or the main operator of the layer `name`, or None if there is neither."""
    if name in graph.operator_index:
        return graph.operators[graph.operator_index[name]]
    members = list_members(graph, name) if name else []
    return choose_main_operator(members, count_points) if members else None


def find_similar_operators(graph: Graph, name: str, count_points: Callable[[Operator], int]) -> list[str]:
    """Return names of scopes and operators that are similar to `name`.

    If the most similar name is an operator, the main operator of its layer comes first.
    """
    near = find_similar_names(name, [*list_scopes(graph), *graph.operator_index])
    if not near or near[0] not in graph.operator_index:
        return near
    position = graph.operator_index[near[0]]
    layers = find_layers(graph)
    members = [graph.operators[n] for n, layer in enumerate(layers) if layer == layers[position]]
    return list(dict.fromkeys([choose_main_operator(members, count_points).name, *near]))


def is_backward(operator: Operator) -> bool:
    """Return True if an operator computes gradients."""
    return operator.forward is not None or operator.is_gradient


def find_phases(graph: Graph) -> list[Phase]:
    """Return the phase of each operator.

    A JAX step has no phases. Its operators that compute gradients are in the backward phase. Other operators that depend
    on gradients are in the update phase.
    """
    phases: list[Phase] = []
    depends_on_gradient: set[int] = set()
    for operator in graph.operators:
        phase = operator.phase
        if phase is Phase.FORWARD and is_backward(operator):
            phase = Phase.BACKWARD
        elif phase is Phase.FORWARD and not depends_on_gradient.isdisjoint(operator.inputs):
            phase = Phase.UPDATE
        if phase is not Phase.FORWARD:
            depends_on_gradient.update(operator.outputs)
        phases.append(phase)
    return phases


def choose_main_operator(operators: Sequence[Operator], count_points: Callable[[Operator], int]) -> Operator:
    """Return the operator that represents a layer: the one with the most work in the forward pass."""
    forward = [operator for operator in operators if not is_backward(operator)] or operators
    return max(forward, key=count_points) if len(forward) > 1 else forward[0]
