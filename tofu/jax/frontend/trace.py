"""Trace a function and convert it to equations and loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from tdl_ops.jax import WHOLE
from tofu.errors import UnsupportedError, raise_together
from tofu.jax.frontend import versions
from tofu.jax.frontend.constants import copy_constants
from tofu.jax.frontend.control_flow import enter_branches, enter_scan, list_bodies
from tofu.jax.frontend.empty import is_empty, make_empty
from tofu.jax.frontend.equations import Equation, Literal, Loop, Operand, Step
from tofu.jax.frontend.names import name_leaves, name_parameters
from tofu.jax.frontend.rewriting import check_primitives, complete, rewrite
from tofu.jax.frontend.static_leaves import (
    ArrayLeaves,
    Structure,
    check_leaf_types,
    flatten_argument,
    flatten_arrays,
    is_array,
)
from tofu.jax.frontend.trees import check_tree, rebuild
from tofu.jax.frontend.value_types import ValueType, read_type
from tofu.jax.kernels.equations import describe_kernel
from tofu.jax.kernels.mapped import inline_in_bodies, inline_shard_map
from tofu.jax.kernels.tracing import tracing_step
from tofu.jax.kernels.versions import without_cudnn


class Traced(NamedTuple):
    """A traced function: its jaxpr (JAX's program), and the shapes and the tree of its results."""

    jaxpr: core.ClosedJaxpr
    shapes: list[Any]
    results_tree: Structure


def trace_step(
    function: Callable[..., Any], arguments: Sequence[Any], static_numbers: bool = False
) -> tuple[Step, Traced]:
    """Return the equations of a function, and its jaxpr (JAX's program).

    Arguments are trees of arrays or shapes. If `static_numbers` is True, Python numbers are part of the step. Raise
    UnsupportedError for side effects.
    """
    flat_arguments = [flatten_argument(argument, static_numbers) for argument in arguments]
    structures: list[Structure] = []
    names = name_parameters(function, len(arguments))

    @wraps(function)
    def run(*traced: ArrayLeaves) -> list[Any]:
        pairs = zip(names, traced, flat_arguments, strict=True)
        trees = [rebuild(name, partial(tree.unflatten, leaves.arrays)) for name, leaves, (_, tree) in pairs]
        results = function(*trees)
        check_tree("result", results)
        arrays, structure = flatten_arrays(results, static_numbers)
        if not all(map(is_array, arrays)):
            check_leaf_types(structure.pick(name_leaves("result", results)), arrays)
        structures.append(structure)
        return arrays

    shapes_of_arguments = jax.tree.map(versions.forget_sharding, [leaves for leaves, _ in flat_arguments])
    with tracing_step(), without_cudnn():
        closed, shapes = jax.make_jaxpr(run, return_shape=True)(*shapes_of_arguments)
    if closed.effects:
        effects = dict.fromkeys(_list_effects(closed.jaxpr))
        raise_together(
            UnsupportedError,
            "The step has side effects: callbacks, prints and references cannot run on shards. Remove them from the step:",
            effects or sorted(map(str, closed.effects)),
        )
    with jax.ensure_compile_time_eval():  # copy now, even if an outer function is being traced
        closed = copy_constants(closed)
    step = read_jaxpr(closed)
    check_primitives(step)
    return step, Traced(closed, shapes, structures[-1])


def _list_effects(jaxpr: core.Jaxpr, call_line: versions.Line = versions.UNKNOWN_LINE) -> Iterator[str]:
    for equation in jaxpr.eqns:
        equation_line = versions.find_line(equation, call_line)
        bodies = list_bodies(equation.params)
        inner_effects = [name for body in bodies for name in _list_effects(body.jaxpr, equation_line)]
        yield from inner_effects
        if equation.effects and not inner_effects:
            yield f"{equation.primitive.name} at {equation_line}"


def read_jaxpr(closed: core.ClosedJaxpr, *, is_planned: bool = True) -> Step:
    """Convert a jaxpr (JAX's program) to a step. Leave out equations that no result needs.

    If `is_planned` is True, rewrite equations to save communication.
    """
    builder = StepBuilder(is_planned=is_planned)
    inputs = [builder.add_value(read_type(variable.aval)) for variable in closed.jaxpr.invars]
    outputs = builder.inline(closed.jaxpr, closed.consts, inputs)
    step = Step(tuple(builder.types), tuple(builder.equations), tuple(inputs), tuple(outputs), builder.constants)
    return eliminate_dead_code(step)


class StepBuilder:
    """Collects the equations (JAX operations) of a step or loop body.

    `in_reverse` has all reversed arrays so far. `in_reverse[x, dimensions]` is x, reversed along these dimensions.
    """

    def __init__(self, *, is_planned: bool = True) -> None:
        self.is_planned = is_planned
        self.types: list[ValueType] = []
        self.equations: list[Equation | Loop] = []
        self.constants: dict[int, Any] = {}
        self.checkpoints = 0
        self._number_by_constant: dict[int, int] = {}  # by id of the constant
        self._number_by_empty_type: dict[ValueType, int] = {}
        self.in_reverse: dict[tuple[int, frozenset[int]], Operand] = {}  # until a loop begins or ends
        self._equation_by_result: dict[int, Equation] = {}  # for the first `_indexed_count` of `_indexed_equations`
        self._indexed_equations, self._indexed_count = self.equations, 0

    def add_value(self, type_: ValueType) -> int:
        """Add a value and return its number."""
        self.types.append(type_)
        return len(self.types) - 1

    def add_empty(self, type_: ValueType) -> int:
        """Return the number of an empty array. All empty arrays of a type have the same number."""
        if type_ not in self._number_by_empty_type:
            self._number_by_empty_type[type_] = self.add_value(type_)
            self.constants[self._number_by_empty_type[type_]] = make_empty(type_)
        return self._number_by_empty_type[type_]

    def add(
        self,
        primitive: Any,
        type_: ValueType,
        inputs: Sequence[Operand],
        like: Equation,
        scope: str | None = None,
        **params: Any,
    ) -> int:
        """Add an equation (JAX operation) with one result, and return the number of the result.

        Fields that are not passed, such as the source line, are copied from the equation `like`.
        """
        output = self.add_value(type_)
        scope = like.scope if scope is None else scope
        self.equations.append(
            replace(like, primitive=primitive, params=params, inputs=tuple(inputs), outputs=(output,), scope=scope)
        )
        return output

    def find_type(self, operand: Operand) -> ValueType:
        """Return the type of an operand."""
        return operand.type if isinstance(operand, Literal) else self.types[operand]

    def find_producer(self, operand: Operand) -> Equation | None:
        """Return the JAX operation that computes an operand, or None if it comes from outside the step or loop body."""
        if self._indexed_equations is not self.equations:  # a loop begins or has ended
            self._equation_by_result, self._indexed_equations, self._indexed_count = {}, self.equations, 0
            self.in_reverse.clear()
        for equation in self.equations[self._indexed_count :]:
            if isinstance(equation, Equation):
                self._equation_by_result.update(dict.fromkeys(equation.outputs, equation))
        self._indexed_count = len(self.equations)
        return self._equation_by_result.get(operand) if isinstance(operand, int) else None

    def inline(
        self,
        jaxpr: core.Jaxpr,
        constants: Sequence[Any],
        arguments: Sequence[Operand],
        scope: str = "",
        line: versions.Line = versions.UNKNOWN_LINE,
        checkpoint: int | None = None,
        is_gradient: bool = False,
    ) -> list[Operand]:
        """Add the equations of a jaxpr (JAX's program), with `arguments` as its inputs. Return its results.

        If `is_gradient` is True, all of them compute gradients.
        """
        values: dict[Any, Operand] = dict(zip(jaxpr.invars, arguments, strict=True))
        values.update(zip(jaxpr.constvars, map(self.add_constant, constants), strict=True))
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in WHOLE:
                eqn = inline_in_bodies(eqn)
            equation = Equation(
                eqn.primitive,
                versions.list_parameters(eqn),
                tuple(self._read(values, x) for x in eqn.invars),
                (),
                "/".join(filter(None, (scope, versions.find_scope(eqn)))),
                versions.find_line(eqn, line),
                checkpoint,
                is_gradient or versions.is_transposed(eqn),
            )
            outputs = self._add_equation(eqn, equation)
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [self._read(values, x) for x in jaxpr.outvars]

    def inline_closed(
        self, closed: core.ClosedJaxpr, arguments: Sequence[Operand], equation: Equation, scope: str | None = None
    ) -> list[Operand]:
        """Add the equations of `closed`, a JAX program with its constants. Return its results for `arguments`."""
        scope = equation.scope if scope is None else scope
        return self.inline(
            closed.jaxpr, closed.consts, arguments, scope, equation.line, equation.checkpoint, equation.is_gradient
        )

    def substitute(
        self, equation: Equation, function: Callable[..., Any], operands: Sequence[Operand], scope: str | None = None
    ) -> list[Operand]:
        """Trace `function(*operands)`, and add its equations. Return the results.

        The new equations get the source line of `equation`.
        """
        types = map(self.find_type, operands)
        shapes = [jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type) for type_ in types]
        first_added = len(self.equations)
        with versions.use_default_promotion():
            closed = jax.make_jaxpr(function)(*shapes)
        results = self.inline_closed(closed, operands, equation, scope)
        self.equations[first_added:] = [
            replace(added, line=equation.line) if isinstance(added, Equation) else added
            for added in self.equations[first_added:]
        ]
        return results

    def _read(self, values: dict[Any, Operand], x: Any) -> Operand:
        if not isinstance(x, core.Literal):
            return values[x]
        type_ = read_type(x.aval)
        return Literal(np.asarray(x.val, type_.dtype), type_)

    def add_constant(self, value: Any) -> Operand:
        """Return an operand for an array that the step uses but does not take as an argument.

        A scalar becomes a literal.
        """
        type_ = read_type(value if hasattr(value, "dtype") else np.asarray(value))
        if is_empty(type_):
            return self.add_empty(type_)
        if not type_.shape and not type_.is_key:
            return Literal(np.asarray(value), type_)
        if id(value) not in self._number_by_constant:
            number = self._number_by_constant[id(value)] = self.add_value(type_)
            self.constants[number] = value
        return self._number_by_constant[id(value)]

    def _add_equation(self, eqn: core.JaxprEqn, equation: Equation) -> Sequence[Operand]:
        name = eqn.primitive.name
        if versions.is_constraint(eqn):
            constraint = "device or sharding of jax.device_put" if name == "device_put" else "sharding constraint"
            subject = f"The {constraint} at {equation.line} is"
            if name in versions.CALLS:
                subject = f"The shardings that jax.jit was given for {eqn.params['name']} are"
            warnings.warn(
                f"{subject} left out: the plan chooses all shardings. Fix some of them with hints= of tofu.jax.partition.",
                stacklevel=2,
            )
        if name in versions.CALLS or name in versions.CHECKPOINTS:
            return self._inline_call(eqn, equation)
        if name == "custom_linear_solve":
            solver, operands = versions.find_solver(eqn, equation.inputs)
            return self.inline_closed(solver, operands, equation)
        if name == "scan":
            return enter_scan(self, eqn, equation)
        if name == "platform_index":
            return [Literal(np.asarray(versions.find_platform(eqn), np.int32), read_type(eqn.outvars[0].aval))]
        if name == "cond" and (results := enter_branches(self, eqn, equation)) is not None:
            return results
        if name in versions.PASSED_THROUGH:
            return equation.inputs[: len(eqn.outvars)]
        if name == "shard_map":
            return self.inline_closed(inline_shard_map(eqn, equation.line), equation.inputs, equation)
        types = [read_type(variable.aval) for variable in eqn.outvars]
        equation = describe_kernel(equation, [read_type(x.aval) for x in eqn.invars])
        if (results := rewrite(self, equation, types)) is not None:
            return results
        equation = complete(self, equation)
        outputs = [self.add_value(type_) for type_ in types]
        self.equations.append(replace(equation, outputs=tuple(outputs)))
        return outputs

    def _inline_call(self, eqn: core.JaxprEqn, equation: Equation) -> list[Operand]:
        body, checkpoint = versions.find_body(eqn), equation.checkpoint
        if eqn.primitive.name in versions.CHECKPOINTS:
            checkpoint, self.checkpoints = self.checkpoints, self.checkpoints + 1
        name = str(eqn.params.get("name") or "")
        scope = "/".join(filter(None, (equation.scope, "" if name == "<lambda>" else name)))
        return self.inline(
            body.jaxpr, body.consts, equation.inputs, scope, equation.line, checkpoint, equation.is_gradient
        )


def eliminate_dead_code(step: Step) -> Step:
    """Return the step without the equations (JAX operations) and constants that no result needs."""
    needed = {x for x in step.outputs if isinstance(x, int)}
    equations = _keep_needed(step.equations, needed)
    constants = {number: value for number, value in step.constants.items() if number in needed}
    return replace(step, equations=equations, constants=constants)


def _keep_needed(items: Sequence[Equation | Loop], needed: set[int]) -> tuple[Equation | Loop, ...]:
    needed_items: list[Equation | Loop] = []
    for item in reversed(items):
        if isinstance(item, Loop):
            loop = _keep_needed_in_loop(item, needed)
            if loop.equations or loop.carries:
                needed_items.append(loop)
        elif needed.intersection(item.outputs):
            needed.update(x for x in item.inputs if isinstance(x, int))
            needed_items.append(item)
    return tuple(needed_items[::-1])


def _keep_needed_in_loop(loop: Loop, needed: set[int]) -> Loop:
    known_count = -1
    while known_count < len(needed):
        known_count = len(needed)
        carries = tuple(carry for carry in loop.carries if carry.last in needed or carry.value in needed)
        needed.update(x for carry in carries for x in (carry.first, carry.following) if isinstance(x, int))
        equations = _keep_needed(loop.equations, needed)
    return replace(
        loop, equations=equations, carries=carries, separate_sums=tuple(n for n in loop.separate_sums if n in needed)
    )
