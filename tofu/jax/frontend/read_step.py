"""Trace a training step and build its graph of operators and tensors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from numbers import Integral
from typing import Any

import jax
import numpy as np
from jax.extend import core

from tofu.engine import Source
from tofu.errors import TofuError, UnsupportedError, raise_together
from tofu.graph import Carry, Graph, Operator, Phase, Tensor, TensorKind
from tofu.host.garbage_collection import collect_rarely
from tofu.jax.frontend.attributes import read_attributes
from tofu.jax.frontend.blocks import divide_into_blocks
from tofu.jax.frontend.equations import LOOP_STACK, Equation, Loop, Operand, Step
from tofu.jax.frontend.loop_sums import hoist_sums
from tofu.jax.frontend.names import UniqueNames, find_user_scope, name_arguments, name_parameters
from tofu.jax.frontend.static_leaves import NUMBERS, Structure, check_leaf_types, flatten_arrays, takes_static_numbers
from tofu.jax.frontend.trace import Traced, trace_step
from tofu.jax.frontend.trees import are_alike, check_tree
from tofu.jax.frontend.value_types import find_dtype
from tofu.jax.frontend.versions import list_donated
from tofu.validation import show, show_with_type

EXAMPLE_ARGUMENTS = (
    "example_args is the tuple of all arguments of the step, as in tofu.jax.partition(step, 8, (state, batch))."
)


@dataclass(frozen=True)
class Native:
    """A traced step, with all data that the backend needs.

    `tensor_of` maps the number of a value in the step to the number of a tensor in the graph. `names` has a name for
    each leaf of the arguments.
    """

    step: Step
    original: Step
    """The step before sums were moved out of its loops, and before its operators were divided into blocks."""
    jaxpr: core.ClosedJaxpr
    """The step as JAX traced it, for derivatives. It takes and returns flat lists of arrays."""
    tensor_of: Mapping[int, int]
    arguments_tree: Structure
    results_tree: Structure
    names: tuple[str, ...]
    has_static_numbers: bool
    """True if Python numbers in the arguments are part of the step, and not arrays."""
    double: bool
    """True if the step was traced with 64-bit numbers enabled."""
    donated: tuple[int, ...] = ()
    """The arrays whose memory the step may reuse, as positions among all arrays in the arguments."""

    def name_tensor(self, graph: Graph, number: int) -> str:
        """Return the graph's name for value `number` of the step."""
        return graph.tensors[self.tensor_of[number]].name

    def list_arguments(self, positions: Any) -> list[int]:
        """Convert positions of arguments to a sorted list: -1 becomes the last position.

        `positions` is one position, several positions, or None. Raise UnsupportedError for a position without an
        argument.
        """
        count = len(self.arguments_tree.children())
        arguments = positions if isinstance(positions, Iterable) else () if positions is None else (positions,)
        wrong = [show(n) for n in arguments if not isinstance(n, Integral) or n not in range(-count, count)]
        if wrong:
            raise UnsupportedError(f"donate_argnums has {wrong[0]}; the step has arguments 0 to {count - 1}.")
        return sorted({int(n) % count for n in arguments})

    @property
    def donated_arguments(self) -> tuple[int, ...]:
        """The arguments whose memory the step may reuse completely."""
        donated, count = set(self.donated), len(self.arguments_tree.children())
        return tuple(n for n in range(count) if (leaves := self.list_leaves(n)) and donated.issuperset(leaves))

    def list_leaves(self, positions: Any) -> list[int]:
        """Return the positions of all arrays in the arguments at `positions`."""
        begins = list(accumulate((tree.num_leaves for tree in self.arguments_tree.children()), initial=0))
        return [leaf for n in self.list_arguments(positions) for leaf in range(begins[n], begins[n + 1])]


def check_arguments(example_args: Any) -> None:
    """Raise UnsupportedError if `example_args` is not a tuple or a list."""
    if not isinstance(example_args, (tuple, list)):
        raise UnsupportedError(f"example_args is {show_with_type(example_args)}, and not a tuple. {EXAMPLE_ARGUMENTS}")


def donate(source: Source, arguments: Any) -> Source:
    """Allow a step to reuse the memory of some arguments (`donate_argnums`).

    None stands for the arguments that the step donates itself, if it is a `jax.jit(step, donate_argnums=...)`.
    """
    native = source.native
    donated = list_donated(native.jaxpr.jaxpr) if arguments is None else native.list_leaves(arguments)
    return replace(source, native=replace(native, donated=tuple(donated)))


@collect_rarely()
def read_step(function: Callable[..., Any], arguments: Sequence[Any], static_numbers: bool = False) -> Source:
    """Trace a training step and return its graph, without running it.

    Parameters
    ----------
    function
        A function of trees of arrays. If its first result has the tree, shapes and types of the first argument, this
        argument is the state.
    arguments
        The function's arguments: trees of arrays, or of `jax.ShapeDtypeStruct`. Functions and strings in a tree are
        *static*: they are part of the step, and not data.
    static_numbers
        If True, Python numbers are static too. If False, they become static only if tracing fails, for example because
        the function uses one in an `if`.

    Returns
    -------
    Source
        The step, with its graph of operators and tensors (`graph`).

    Raises
    ------
    UnsupportedError
        The step cannot be traced, or an argument has a type that JAX does not accept.
    """
    if not callable(function):
        raise UnsupportedError(f"A step is a function of arrays, not {show_with_type(function)}.")
    static_numbers |= takes_static_numbers(function)
    arguments = tuple(arguments)
    for name, argument in zip(name_parameters(function, len(arguments)), arguments, strict=True):
        check_tree(name, argument)
    leaves, structure = flatten_arrays(arguments, static_numbers)
    all_names = name_arguments(function, arguments)
    names = structure.pick(all_names)
    check_leaf_types(names, leaves)
    try:
        step, traced = trace_step(function, arguments, static_numbers)
    except NameError as error:
        if "unbound axis name" not in str(error):
            raise
        raise UnsupportedError(
            f"The step names an axis of devices, as functions for jax.pmap and jax.shard_map do (psum, pmean, axis_index): {error}. Write "
            "it for one device, without that: a mean over the batch is one over all of it."
        ) from error
    except Exception as error:
        # The step may use a number in a shape, an index, or a Python `if`. JAX raises many kinds of errors for this.
        if static_numbers or not any(isinstance(leaf, NUMBERS) for leaf in leaves):
            _explain_failure(function, arguments, error)
            raise
        return read_step(function, arguments, static_numbers=True)
    state_count = _find_state(leaves, structure.children()[0], traced, names) if arguments else 0
    graph, tensor_of = make_graph(step, names, state_count)
    raise_together(
        UnsupportedError,
        "These tensors have no elements and cannot be split. Remove them, or make every dimension at least 1:",
        [_describe_empty(graph, t) for t, tensor in enumerate(graph.tensors) if 0 in tensor.shape],
    )
    raise_together(
        UnsupportedError,
        "These have the type float0, as gradients of integers do, and hold no data. Do not return them from the step:",
        [tensor.name for tensor in graph.tensors if "float0" in tensor.dtype],
    )
    double = bool(jax.config.jax_enable_x64)
    trees = structure, traced.results_tree
    native = Native(step, step, traced.jaxpr, tensor_of, *trees, tuple(all_names), static_numbers, double)
    return Source(graph, native)


def _explain_failure(function: Callable[..., Any], arguments: tuple[Any, ...], error: Exception) -> None:
    """Add the types of the step's arguments to an error, because the user may have passed only the state.

    Raise UnsupportedError if the step does not take as many arguments as were passed.
    """
    if isinstance(error, TofuError):
        return
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as mismatch:
        if isinstance(error, TypeError):
            raise UnsupportedError(
                f"The step cannot be called with the {len(arguments)} values of example_args: {mismatch}. The signature is "
                f"step{inspect.signature(function)}. {EXAMPLE_ARGUMENTS}"
            ) from error
    except ValueError:  # a callable without a signature
        return
    if hasattr(error, "add_note"):  # since Python 3.11
        names = name_parameters(function, len(arguments))
        types = (f"{name} is of type {type(x).__name__}" for name, x in zip(names, arguments, strict=True))
        error.add_note(
            f"The step was called with the values of example_args: {', '.join(types)}. example_args is the tuple of all arguments of the "
            f"step: ({', '.join(names)}{',' if len(names) == 1 else ''})."
        )


def _describe_empty(graph: Graph, tensor: int) -> str:
    readers = (operator for operator in graph.operators if tensor in operator.inputs)
    reading = next((f"; {operator.name} at {operator.origin.line} reads it" for operator in readers), "")
    return f"{graph.tensors[tensor].name} has shape {graph.tensors[tensor].shape}{reading}"


def _find_state(arguments: Sequence[Any], state: Structure, traced: Traced, names: Sequence[str]) -> int:
    state_leaves, result_shapes, results_tree = arguments[: state.num_leaves], traced.shapes, traced.results_tree
    candidates = [results_tree]
    if (data := results_tree.tree.node_data()) is not None and issubclass(data[0], tuple):
        candidates += results_tree.children()[:1]
    argument = names[0].partition("/")[0] if names else "state"
    for candidate in candidates:
        candidate_shapes = result_shapes[: candidate.num_leaves]
        if (
            not are_alike(argument, candidate.tree, state.tree)
            or candidate != state
            or [np.shape(x) for x in candidate_shapes] != [np.shape(x) for x in state_leaves]
        ):
            continue
        leaf_types = zip(names, map(find_dtype, state_leaves), map(find_dtype, candidate_shapes), strict=False)
        changed = [f"{name}, from {before} to {after}" for name, before, after in leaf_types if before != after]
        if not changed:
            return len(state_leaves)
        if jax.tree_util.treedef_is_leaf(state.tree):
            continue  # a function of arrays without a state
        warnings.warn(
            f"The step changes the types of its state ({', '.join(changed[:3])}{' ...' if changed[3:] else ''}). The result is not used as "
            "the next state: the plan holds for the types of the arguments.",
            stacklevel=4,
        )
    return 0


def count_state(source: Source) -> int:
    """Return the number of arrays in the state of a step."""
    tensors = (source.graph.tensors[source.native.tensor_of[number]] for number in source.native.step.inputs)
    return sum(tensor.kind is TensorKind.PARAMETER for tensor in tensors)


def hoist_loop_sums(source: Source) -> Source | None:
    """Move sums out of the loops of a step. Return None if no sum can move."""
    native: Native = source.native
    if (step := hoist_sums(native.step)) is None:
        return None
    name_by_tensor = {tensor: operator.name for operator in source.graph.operators for tensor in operator.outputs}
    for carry in source.graph.carries:  # an addition after a loop gets the name of the addition in the loop
        names = [name_by_tensor[value] for value in carry.values if value in name_by_tensor]
        name_by_tensor.update((carry.last, name) for name in names)
    return _replace_step(source, step, lambda equation: name_by_tensor[native.tensor_of[equation.outputs[0]]])


def divide_step(source: Source, workers: int) -> Source | None:
    """Rewrite operators such as `cumsum`, so that each worker computes one block.

    Return None if the step has no such operator.
    """
    if (step := divide_into_blocks(source.native.step, workers)) is None:
        return None
    name_by_origin = {id(operator.origin): operator.name for operator in source.graph.operators}
    return _replace_step(source, step, lambda equation: name_by_origin.get(id(equation)))


def _replace_step(source: Source, step: Step, find_operator_name: Callable[[Equation], str | None]) -> Source:
    native: Native = source.native
    names = [native.name_tensor(source.graph, number) for number in step.inputs]
    graph, tensor_of = make_graph(step, names, count_state(source))
    tensor_names = UniqueNames(tuple(source.graph.tensor_index))
    operator_names = UniqueNames(tuple(source.graph.operator_index))
    tensors = list(graph.tensors)
    for number, position in tensor_of.items():
        original, name = native.tensor_of.get(number), tensors[position].name
        kept_name = tensor_names.take(name) if original is None else source.graph.tensors[original].name
        tensors[position] = replace(tensors[position], name=kept_name)
    operators = tuple(
        replace(operator, name=find_operator_name(operator.origin) or operator_names.take(operator.name))
        for operator in graph.operators
    )
    graph = replace(graph, tensors=tuple(tensors), operators=operators)
    return Source(graph, replace(native, step=step, tensor_of=tensor_of))


def make_graph(step: Step, names: Sequence[str], state_count: int = 0) -> tuple[Graph, dict[int, int]]:
    """Build the graph of a step. Also return {number of a value in the step: number of its tensor in the graph}.

    `names` has a name for each array in the arguments. The first `state_count` arrays are the state, and the first
    `state_count` results are the next state.
    """
    builder = _GraphBuilder(step)
    for n, (number, name) in enumerate(zip(step.inputs, names, strict=True)):
        builder.add_tensor(number, name, TensorKind.PARAMETER if n < state_count else TensorKind.INPUT)
    for n, number in enumerate(step.constants):
        builder.add_tensor(number, f"constant_{n}", TensorKind.PARAMETER)
    builder.add_all(step.equations)
    tensors, tensor_of = builder.tensors, builder.tensor_of
    pairs = zip(step.inputs[:state_count], step.outputs[:state_count], strict=True)
    next_values = {tensor_of[n]: tensor_of[x] for n, x in pairs if isinstance(x, int) and n != x}
    other_results = (tensor_of[x] for x in step.outputs[state_count:] if isinstance(x, int))
    outputs = tuple(dict.fromkeys(t for t in other_results if not tensors[t].exists_before_step))
    graph = Graph(
        tuple(tensors), tuple(builder.operators), outputs, next_values=next_values, carries=tuple(builder.carries)
    )
    return graph, tensor_of


class _GraphBuilder:
    def __init__(self, step: Step) -> None:
        self.step = step
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.carries: list[Carry] = []
        self.tensor_of: dict[int, int] = {}
        self._tensor_names, self._operator_names = UniqueNames(), UniqueNames()

    def add_tensor(self, number: int, name: str, kind: TensorKind, times: int = 1, addends: int = 1) -> None:
        type_ = self.step.types[number]
        self.tensor_of[number] = len(self.tensors)
        unique_name = self._tensor_names.take(name)
        self.tensors.append(
            Tensor(unique_name, type_.shape, type_.dtype_name, type_.item_bytes, kind, times=times, addends=addends)
        )

    def add_all(self, items: Sequence[Equation | Loop], lengths: tuple[int, ...] = ()) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._add_loop(item, lengths)
            else:
                self._add_operator(item, lengths)

    def _add_operator(self, equation: Equation, lengths: tuple[int, ...]) -> None:
        summed_end = len(lengths) - equation.has_separate_sums
        summed_lengths = lengths[summed_end - equation.loops_summed : summed_end]
        addends = prod(summed_lengths)
        times = prod(lengths) // addends
        name = self._operator_names.take("/".join(filter(None, (equation.scope, equation.primitive.name))))
        for n, number in enumerate(equation.outputs):
            tensor_name = name if len(equation.outputs) == 1 else f"{name}.{n}"
            self.add_tensor(number, tensor_name, TensorKind.INTERMEDIATE, times, addends)
        self.operators.append(
            Operator(
                name,
                equation.primitive.name,
                read_attributes(equation, self.step.types),
                self._list_tensors(equation.inputs),
                self._list_tensors(equation.outputs),
                Phase.FORWARD,  # a JAX step is one program without phases
                origin=equation,
                find_line=equation.line.find,
                scope=find_user_scope(equation.scope),
                is_gradient=equation.is_gradient,
            )
        )

    def _add_loop(self, loop: Loop, lengths: tuple[int, ...]) -> None:
        times = prod(lengths)
        for n, carry in enumerate(loop.carries):
            self.add_tensor(carry.value, f"{loop.scope}/carry_{n}", TensorKind.CARRY, times * loop.length)
        self.add_all(loop.equations, (*lengths, loop.length))
        for n, carry in enumerate(loop.carries):
            self.add_tensor(carry.last, f"{loop.scope}/carry_{n}/last", TensorKind.CARRY, times)
            values = self._list_tensors(x for x in (carry.first, carry.following) if x != carry.value)
            self.carries.append(Carry(self.tensor_of[carry.value], values, self.tensor_of[carry.last]))
        for item in loop.equations:
            if isinstance(item, Equation) and item.primitive is LOOP_STACK:
                stack = self.tensor_of[item.outputs[0]]
                self.tensors[stack] = replace(self.tensors[stack], times=times)

    def _list_tensors(self, operands: Iterable[Operand]) -> tuple[int, ...]:
        return tuple(self.tensor_of[x] for x in operands if isinstance(x, int))
