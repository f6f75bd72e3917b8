"""The semantic graph of a step: (state, data, ...) -> (state, results), where the state that comes out is that of the next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from tofu.engine import Source
from tofu.errors import UnsupportedError
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.jax.frontend.attributes import read_attributes
from tofu.jax.frontend.equations import Step, ValueType
from tofu.jax.frontend.names import Names, name_arguments
from tofu.jax.frontend.trace import trace_step


@dataclass(frozen=True)
class Native:
    """A step as JAX has it, for what runs plans: its equations, which tensor each value is, and the trees of arguments and results."""

    step: Step
    tensor_of: Mapping[int, int]
    arguments_tree: Any
    results_tree: Any


def read_step(function: Callable[..., Any], arguments: Sequence[Any]) -> Source:
    """The training step `function(*arguments)`, whose arguments are trees of arrays, or of `jax.ShapeDtypeStruct`s: no array is made.

    The first argument is the state if the result, or the first of a tuple of results, has its tree, shapes and types.
    """
    if not callable(function):
        raise UnsupportedError(f"A step is a function of arrays, not {function!r}.")
    step, results = trace_step(function, arguments)
    count = _count_state(arguments[0], results) if arguments else 0
    graph, tensor_of = make_graph(step, name_arguments(function, arguments), count)
    trees = (jax.tree_util.tree_structure(tree) for tree in (tuple(arguments), results))
    return Source(graph, Native(step, tensor_of, *trees))


def _count_state(state: Any, results: Any) -> int:
    """How many leaves the state has: those of the first argument and of the first results alike; 0 without one."""
    first = results[0] if isinstance(results, tuple) and not _is_alike(state, results) and results else results
    return len(jax.tree_util.tree_leaves(state)) if _is_alike(state, first) else 0


def _is_alike(one: Any, other: Any) -> bool:
    (ours, tree), (theirs, other_tree) = map(jax.tree_util.tree_flatten, (one, other))
    if tree != other_tree:
        return False
    kinds = [[(x.shape, x.dtype) if hasattr(x, "dtype") else ((), None) for x in leaves] for leaves in (ours, theirs)]
    return kinds[0] == kinds[1]


def make_graph(step: Step, names: Sequence[str], state: int = 0) -> tuple[Graph, dict[int, int]]:
    """The graph of a step whose first `state` arguments come out again as its first results; and value -> tensor."""
    tensors: list[Tensor] = []
    tensor_of: dict[int, int] = {}
    taken = Names()

    def add(number: int, name: str, kind: TensorKind) -> None:
        type_: ValueType = step.types[number]
        tensor_of[number] = len(tensors)
        tensors.append(Tensor(taken.take(name), type_.shape, str(type_.dtype), type_.item_bytes, kind))

    for n, (number, name) in enumerate(zip(step.inputs, names, strict=True)):
        add(number, name, TensorKind.PARAMETER if n < state else TensorKind.INPUT)
    for n, number in enumerate(step.constants):
        add(number, f"constant_{n}", TensorKind.PARAMETER)
    operators, known = [], Names()
    for equation in step.equations:
        name = known.take("/".join(filter(None, (equation.scope, equation.primitive.name))))
        for n, number in enumerate(equation.outputs):
            add(number, name if len(equation.outputs) == 1 else f"{name}.{n}", TensorKind.INTERMEDIATE)
        operators.append(
            Operator(
                name,
                equation.primitive.name,
                read_attributes(equation, step.types),
                tuple(tensor_of[x] for x in equation.inputs if isinstance(x, int)),
                tuple(tensor_of[x] for x in equation.outputs),
                Phase.FORWARD,  # the step is one program, in which nothing is fed between its phases
                origin=equation,
            )
        )
    pairs = zip(step.inputs[:state], step.outputs[:state], strict=True)
    following = {tensor_of[a]: tensor_of[r] for a, r in pairs if isinstance(r, int) and a != r}
    rest = (tensor_of[x] for x in step.outputs[state:] if isinstance(x, int))
    outputs = tuple(dict.fromkeys(t for t in rest if tensors[t].kind is TensorKind.INTERMEDIATE))
    return Graph(tuple(tensors), tuple(operators), outputs, next_values=following), tensor_of
