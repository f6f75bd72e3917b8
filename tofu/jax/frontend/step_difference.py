"""Compare two traces of a step: their static data, and their programs.

Static data are static leaves, such as functions in a dict, and static fields of classes, such as `tx` in a TrainState.

In programs, names, scopes, source lines and the identity of functions may differ. For example, two calls of
`optax.adamw(0.1)` make different functions, but both lead to the same program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import chain
from types import CellType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np
from jax.extend import core

from tofu.jax.frontend.equations import Equation, Literal, Loop, Step
from tofu.jax.frontend.names import name_children, name_static_fields
from tofu.jax.frontend.static_leaves import Structure
from tofu.jax.frontend.versions import Line
from tofu.validation import show

IGNORED_PARAMETERS = frozenset(
    ("name", "debug_info", "jvp_jaxpr_fun", "jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "fwd", "bwd", "out_trees")
)
"""Names, and derivatives of functions with their own rule. A derivative of a step is traced and planned by itself."""


def list_static_differences(
    parameters: Sequence[str], names: Sequence[str], planned: Structure, passed: Structure
) -> Iterator[str]:
    """Yield a text for each difference, such as "state/activation is tanh, and relu is part of the step".

    Both structures are of a tuple of arguments, with the same nodes. `parameters` has a name for each argument, and
    `names` for each leaf.
    """
    for parameter, old, new in zip(parameters, planned.tree.children(), passed.tree.children(), strict=True):
        yield from _list_field_differences(parameter, old, new)
    passed_leaves = dict(passed.static)
    for n, leaf in planned.static:
        if leaf != passed_leaves[n]:
            yield _describe(names[n], leaf.value, passed_leaves[n].value)


def _list_field_differences(path: str, planned: Any, passed: Any) -> Iterator[str]:
    if planned == passed:
        return
    (node_type, old), (_, new) = planned.node_data(), passed.node_data()
    if old != new and isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for name, old_value, new_value in zip(name_static_fields(node_type, len(old)), old, new, strict=True):
            if old_value != new_value:
                yield _describe(f"{path}/{name}", old_value, new_value)
    elif old != new:
        yield _describe(path, old, new)
    for key, *children in zip(name_children(planned), planned.children(), passed.children(), strict=True):
        yield from _list_field_differences(f"{path}/{key}", *children)


def _describe(path: str, planned: Any, passed: Any) -> str:
    planned_text, passed_text = (str(getattr(x, "__name__", "")) or show(x) for x in (planned, passed))
    if planned_text == passed_text:  # for example, the same function with another closure
        return f"{path} is another {type(passed).__name__} than planned"
    return f"{path} is {passed_text}, and {planned_text} is part of the step"


def describe_step_difference(planned: Step, passed: Step) -> str:
    """Describe the first difference between two programs. Return "" if they compute the same results."""
    difference = next(_list_differences(planned.equations, passed.equations), "")
    if difference:
        return difference
    if not is_same(planned.outputs, passed.outputs):
        return "it returns other values than the plan"
    if (planned.types, planned.inputs) != (passed.types, passed.inputs):
        return "it computes values of other types than the plan"
    return "" if is_same(planned.constants, passed.constants) else "a global array that it reads has other values"


def _list_differences(planned: Sequence[Equation | Loop], passed: Sequence[Equation | Loop]) -> Iterator[str]:
    for old, new in zip(planned, passed, strict=False):
        if isinstance(old, Loop) and isinstance(new, Loop):
            yield from _list_differences(old.equations, new.equations)
            if not is_same(*(replace(loop, equations=(), scope="") for loop in (old, new))):
                yield f"the loop {new.scope} has other carried values or another length"
        elif isinstance(old, Equation) and isinstance(new, Equation):
            yield from _list_equation_differences(old, new)
        else:
            yield "it has other loops than the plan"
    if len(planned) != len(passed):
        yield f"it has {len(passed)} operators, and the plan has {len(planned)}"


def _list_equation_differences(old: Equation, new: Equation) -> Iterator[str]:
    name, planned_name = new.primitive.name, old.primitive.name
    if name != planned_name:
        yield f"at {new.line} it computes {name}, and the plan computes {planned_name}"
        return
    for a, b in zip(old.inputs, new.inputs, strict=False):
        if isinstance(a, Literal) and isinstance(b, Literal) and not is_same(a, b):
            constant, planned_constant = str(b.value), str(a.value)  # str() prints float32 numbers with few digits
            yield f"at {new.line}, {name} has the constant {constant}, and {planned_constant} in the plan"
    if (old.outputs, len(old.inputs)) != (new.outputs, len(new.inputs)) or not is_same(old.inputs, new.inputs):
        yield f"at {new.line}, {name} has other operands than in the plan"
    for parameter in sorted({*old.params, *new.params}.difference(IGNORED_PARAMETERS)):
        if not is_same(old.params.get(parameter), new.params.get(parameter)):
            yield f"at {new.line}, {name} has another {parameter} than in the plan"


def is_same(first: Any, second: Any) -> bool:
    """Return True if two parameters or constants of equations lead to the same computation.

    Arrays are compared bit by bit. Functions are the same if they have the same code, and read the same values.
    """
    try:
        return _Comparison().is_same(first, second)
    except Exception:  # any error of a user's `==`
        return False


class _Comparison:
    def __init__(self) -> None:
        # Pairs that are being compared, or were found to be the same, by their ids. It keeps the ids valid.
        self._seen: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._variables: dict[Any, Any] = {}  # for each variable of the first jaxpr, the variable of the second

    def is_same(self, first: Any, second: Any) -> bool:
        if first is second or (id(first), id(second)) in self._seen:
            return True
        if type(first) is not type(second):
            return False
        if isinstance(first, (bool, int, float, complex, np.generic, np.ndarray)):
            return _read_bits(first) == _read_bits(second)
        if isinstance(first, jax.core.Tracer):  # an array that a kernel replaces by its operand
            return bool(first.aval == second.aval)
        if isinstance(first, jax.Array):
            return _is_same_array(first, second)
        if isinstance(first, core.Jaxpr):
            return self._is_same_jaxpr(first, second)
        if (parts := _list_parts(first)) is None:
            return bool(first == second)
        self._seen[id(first), id(second)] = first, second
        other_parts = _list_parts(second) or []
        return len(parts) == len(other_parts) and all(map(self.is_same, parts, other_parts))

    def _is_same_jaxpr(self, first: core.Jaxpr, second: core.Jaxpr) -> bool:
        if len(first.eqns) != len(second.eqns):
            return False
        variables = ([*jaxpr.constvars, *jaxpr.invars] for jaxpr in (first, second))
        if not self._define(*variables):
            return False
        for old, new in zip(first.eqns, second.eqns, strict=True):
            if old.primitive is not new.primitive or not self._read_same(old.invars, new.invars):
                return False
            if old.params.keys() != new.params.keys() or not self._define(old.outvars, new.outvars):
                return False
            names = old.params.keys() - IGNORED_PARAMETERS
            if not all(self.is_same(old.params[name], new.params[name]) for name in names):
                return False
        return self._read_same(first.outvars, second.outvars)

    def _define(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        self._variables.update(zip(first, second, strict=False))
        return [variable.aval for variable in first] == [variable.aval for variable in second]

    def _read_same(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        return len(first) == len(second) and all(map(self._is_same_operand, first, second))

    def _is_same_operand(self, first: Any, second: Any) -> bool:
        if isinstance(first, core.Literal) and isinstance(second, core.Literal):
            return bool(first.aval == second.aval) and self.is_same(first.val, second.val)
        return self._variables.get(first) is second if not isinstance(first, core.Literal) else False


def _list_parts(value: Any) -> list[Any] | None:
    """Return the contents of a container or function. Return None for values that `==` can compare."""
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, Mapping):
        return list(chain.from_iterable(value.items()))
    if isinstance(value, core.ClosedJaxpr):
        return [value.jaxpr, list(value.consts)]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        cells = [_read_cell(cell) for cell in value.__closure__ or ()]
        return [value.__code__, id(value.__globals__), value.__defaults__, value.__kwdefaults__, cells]
    if isinstance(value, Line):
        return []
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    is_of_tofu = type(value).__module__.startswith("tofu.")  # each trace makes new objects for kernels
    return [vars(value)] if is_of_tofu and hasattr(value, "__dict__") else None


def _read_cell(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _read_bits(value: Any) -> tuple[Any, ...]:
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()


def _is_same_array(first: jax.Array, second: jax.Array) -> bool:
    if (first.shape, first.dtype) != (second.shape, second.dtype) or first.sharding != second.sharding:
        return False
    if jax.dtypes.issubdtype(first.dtype, jax.dtypes.prng_key):
        first, second = jax.random.key_data(first), jax.random.key_data(second)
    shards = zip(first.addressable_shards, second.addressable_shards, strict=True)
    return all(_read_bits(a.data) == _read_bits(b.data) for a, b in shards)
