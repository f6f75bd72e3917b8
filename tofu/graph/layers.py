"""Layers of a model, which are the rows of a printed plan.

A layer has the operators from one line of the user's program, in one scope such as `encoder/block_0`. If lines are
unknown, a layer is a forward operator with its gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath

from tofu.graph.semantic import Graph, Operator


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
    """Return the operators of the layer `name`, or [] if no layer has this name."""
    layer = next((number for number, layer_name in name_layers(graph).items() if layer_name == name), None)
    return [operator for operator, number in zip(graph.operators, find_layers(graph), strict=True) if number == layer]


def is_backward(operator: Operator) -> bool:
    """Return True if an operator computes gradients."""
    return operator.forward is not None or operator.is_gradient


def choose_main_operator(operators: Sequence[Operator], count_points: Callable[[Operator], int]) -> Operator:
    """Return the forward operator with the most work, which represents the layer."""
    forward = [operator for operator in operators if not is_backward(operator)] or operators
    return max(forward, key=count_points) if len(forward) > 1 else forward[0]
