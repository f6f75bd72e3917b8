"""Whether the line of an operator is true: its description is there, can be analysed, and is of the kind that the line says.

A description of MXNet's operators has been compared with MXNet's kernels besides, and the record of that says what kind it is; JAX's are
compared in the tests. Those that stand here are analysed, and never compared with TensorFlow's kernels.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.evaluation.tensorflow import Signature, look_up
from tdl_ops.jax import DESCRIPTIONS as OF_JAX
from tdl_ops.mxnet import DESCRIPTIONS as OF_MXNET
from tofu.analysis import OperatorAccess, analyse
from tofu.mxnet.verify.record import Entry, read_record
from tofu.tdl import Description, Trace, trace
from tofu.tdl.expression import OpaqueElement, Position
from tofu.tdl.forms import Output
from tofu.tdl.walk import accesses, walk

ELEMENTWISE, ARITHMETIC, OPAQUE = "elementwise", "arithmetic", "opaque"
SPARSE, DYNAMIC_SHAPE, DATA_DEPENDENT = "sparse", "dynamic_shape", "data_dependent"
DESCRIBABLE = ELEMENTWISE, ARITHMETIC, OPAQUE
REASONS = SPARSE, DYNAMIC_SHAPE, DATA_DEPENDENT
HERE = "here"
ENGINES: Mapping[str, Mapping[str, Description]] = {"mxnet": OF_MXNET, "jax": OF_JAX}
SHAPE = (4, 5)
# Of JAX's primitives that are not element-wise; those that read or write by indices take their dimensions as values of JAX's own.
JAX_SIGNATURES = {
    "cumprod": Signature([SHAPE], [SHAPE], {"axis": 0}),
    "fft": Signature([(3, 8)], [(3, 8)], {"fft_lengths": (8,)}),
    "qr": Signature([(3, 5, 4)], [(3, 5, 4), (3, 4, 4)]),
}


@dataclass(frozen=True)
class Row:
    """An operator: its table in `described.toml`, and the description that computes it, if one does. `inputs`: how many it has."""

    name: str
    module: str
    inputs: int
    kind: str
    described_by: str

    @property
    def reference(self) -> tuple[str, str, dict[str, Any]]:
        """The engine, the description's name and its attributes, of `mxnet:clip(a_min=0.0,a_max=6.0)`."""
        found = re.fullmatch(r"(\w+):([\w-]+)(?:\((.*)\))?", self.described_by)
        if found is None:
            raise ValueError(
                f"{self.name}: {self.described_by} names no description: mxnet:NAME, jax:NAME or here does"
            )
        pairs = (pair.split("=") for pair in (found[3] or "").split(",") if pair)
        return found[1], found[2], {name: _read_attribute(text) for name, text in pairs}


def _read_attribute(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def find_problems(row: Row) -> Iterator[str]:
    """What is not true about a row."""
    if not row.described_by:
        if row.kind in DESCRIBABLE:
            yield f"{row.name} is {row.kind}, and by no description"
    elif row.described_by == HERE:
        yield from _check_kind(row, trace_here(row.name))
        analyse_here(row.name)
    else:
        yield from _check_named(row)


def trace_here(name: str) -> Trace:
    """The description of this folder, at its signature."""
    return _trace(*look_up(name))


def analyse_here(name: str) -> OperatorAccess:
    """Its strategies there."""
    description, own = look_up(name)
    return analyse(description, own.attributes, own.inputs, own.outputs)


def _check_named(row: Row) -> Iterator[str]:
    engine, name, attributes = row.reference
    description = ENGINES[engine].get(name)
    if description is None:
        yield f"{row.name}: {engine} has no description {name}"
        return
    if engine == "mxnet":
        yield from _check_record(row, _read_record().get(name))
    signature = JAX_SIGNATURES.get(name) if engine == "jax" else None
    if signature is None and row.kind == ELEMENTWISE:
        count = row.inputs if description.star else len(description.tensors) - description.optional
        signature = Signature([SHAPE] * count, [SHAPE])
    if signature is not None:
        merged = Signature(signature.inputs, signature.outputs, {**signature.attributes, **attributes})
        yield from _check_kind(row, _trace(description, merged))


def _check_record(row: Row, entry: Entry | None) -> Iterator[str]:
    if entry is None or not entry.is_verified:
        yield f"{row.name}: {row.described_by} was not verified"
    elif row.kind in DESCRIBABLE and entry.is_opaque != (row.kind == OPAQUE):
        yield f"{row.name} is {row.kind}, {row.described_by} is {'' if entry.is_opaque else 'not '}opaque"
    elif row.kind == ARITHMETIC and entry.is_elementwise:
        yield f"{row.name} is {row.kind}, {row.described_by} is element-wise"


def _check_kind(row: Row, traced: Trace) -> Iterator[str]:
    found = find_kind(traced)
    if row.kind in DESCRIBABLE and found != row.kind:
        yield f"{row.name} is {row.kind}, its description is {found}"


def find_kind(traced: Trace) -> str:
    """The kind of a description that was traced."""
    values = [output.value for output in traced.outputs if output.value is not None]
    if any(isinstance(node, OpaqueElement) for value in values for node in walk(value)):
        return OPAQUE
    variables = {name for output in traced.outputs for name in output.variables}
    is_elementwise = variables == set(traced.definitions) and all(map(_is_elementwise, traced.outputs))
    return ELEMENTWISE if is_elementwise else ARITHMETIC


def _is_elementwise(output: Output) -> bool:
    """Whether every tensor is read at the output's last index variables, or at 0 where it is broadcast."""
    if output.value is None or output.groups is None or any(len(group) > 1 for group in output.groups):
        return False
    if any(isinstance(node, Position) for node in walk(output.value)):
        return False
    return all(_is_own_cell(access.indices, output.variables) for access in accesses(output.value))


def _is_own_cell(indices: Sequence[object], variables: Sequence[str]) -> bool:
    last = variables[len(variables) - len(indices) :]
    return len(last) == len(indices) and all(str(i) in (name, "0") for i, name in zip(indices, last, strict=True))


def _trace(description: Description, signature: Signature) -> Trace:
    ranks = [len(shape) for shape in signature.outputs]
    return trace(description, signature.attributes, signature.inputs, ranks, signature.outputs)


_read_record = cache(read_record)
