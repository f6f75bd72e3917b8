"""Execution of one operator's training graph, node by node: the operator, then its gradient."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx
import numpy as np

from tofu import _mxnet
from tofu.mxnet.frontend.head_gradients import find_head, name_head_gradient
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.mxnet.frontend.read_symbol import shares_state
from tofu.mxnet.verify.kernels import KERNEL_ERRORS, compose, find_left, run_gradient, run_kernel
from tofu.verification.cuts import Role
from tofu.verification.kernel import Array, Shape


@dataclass(frozen=True)
class Gradient:
    """Data to run a backward operator together with its forward operator, if it cannot run alone.

    Attributes
    ----------
    forward
        The forward operator's node.
    wrt
        Positions of the forward operator's inputs whose gradients are computed.
    outputs
        Positions of these gradients among the backward operator's outputs.
    heads
        Positions of the head gradients among the backward operator's inputs; None for unused ones.
    saved, given
        Position of an input of the backward operator -> the output, or the input, of the forward operator that it is.
    shares_state
        True if forward and backward operator must be split in the same way.
    """

    forward: VerifiedNode
    wrt: tuple[int, ...]
    outputs: tuple[int, ...]
    heads: tuple[int | None, ...]
    saved: Mapping[int, int]
    given: Mapping[int, int]
    shares_state: bool


@dataclass(frozen=True)
class VerifiedNode:
    """Operator of the training graph with whole inputs and outputs.

    Attributes
    ----------
    left
        Elements of each output that the kernel does not write.
    mutated
        Positions of the inputs that the kernel changes.
    inputs_after
        The inputs as the kernel left them, as far as they are visible.
    input_roles, output_roles
        For each tensor, the input or output of the forward operator with the same shape: the tensor itself, or the
        tensor whose gradient it is.
    reused
        Positions of the forward operator's outputs from which the kernel computes other numbers in a second run.
    """

    op: str
    attributes: Mapping[str, str]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    left: tuple[Array, ...]
    inputs_after: tuple[Array, ...]
    mutated: tuple[int, ...]
    input_roles: tuple[Role | None, ...]
    output_roles: tuple[Role | None, ...]
    gradient: Gradient | None = None
    reused: tuple[int, ...] = ()

    @property
    def spoiled(self) -> tuple[int, ...]:
        """Positions of inputs that the kernel changes although neither MXNet nor Tofu declares it."""
        known = {*self.mutated, *_mxnet.overwritten_inputs(self.op, self.attributes)}
        pairs = enumerate(zip(self.inputs, self.inputs_after, strict=True))
        seen = tuple(n for n, (before, after) in pairs if n not in known and before.tobytes() != after.tobytes())
        return seen if known.intersection(self.reused) else (*seen, *self.reused)

    @property
    def values(self) -> dict[str, Any]:
        """Attributes as Python values."""
        return {name: read_attribute(text) for name, text in self.attributes.items()}

    def is_asked_for(self, output: int) -> bool:
        """Return True if the kernel computed an output. Together with its forward operator, it only computes gradients of `wrt`."""
        return self.gradient is None or output in self.gradient.outputs

    def run(
        self, attributes: Mapping[str, str], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> tuple[list[Array], list[Array]]:
        """Run the kernel on other inputs of the same types. Return the outputs, and the inputs as the kernel left them."""
        return run_kernel(self.op, attributes, inputs, output_shapes, [output.dtype.name for output in self.outputs])

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> list[Array] | None:
        """Return the kernel's outputs for other attributes and inputs; None if MXNet refuses them."""
        try:
            return self.run(write_attributes(values), inputs, output_shapes)[0]
        except KERNEL_ERRORS:
            return None

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the shapes of the outputs as MXNet infers them; None if MXNet refuses the call."""
        try:
            inferred = _mxnet.infer_operator(self.op, write_attributes(values), shapes)
        except RuntimeError:
            return None
        if inferred is None or any(shape is None for shape in inferred):
            return None
        return tuple(tuple(shape or ()) for shape in inferred)


def read_attribute(text: str) -> Any:
    """Return the value of an attribute, or its text if the text is no Python value."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def write_attributes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes as texts, as MXNet takes them."""
    return {name: str(value) for name, value in values.items()}


def execute_training_graph(
    op: str, attributes: Mapping[str, str], inputs: Sequence[Array], wrt: Sequence[int] | None, seed: int
) -> list[VerifiedNode]:
    """Run `op` and the operators of its gradient with respect to the inputs `wrt` (by default all but states).

    Head gradients are random numbers drawn with `seed`.
    """
    symbol, training, wrt = _build_training_graph(op, attributes, len(inputs), wrt)
    return _Execution(symbol, training, inputs, wrt, seed).run()


def list_operators(op: str, attributes: Mapping[str, str], count: int, wrt: Sequence[int] | None) -> set[str]:
    """Return the operators of the training graph of `op` over `count` inputs, without running it."""
    _, training, _ = _build_training_graph(op, attributes, count, wrt)
    return {node["op"] for node in _mxnet.nodes(training.handle.value)} - {"null"}


def _build_training_graph(
    op: str, attributes: Mapping[str, str], count: int, wrt: Sequence[int] | None
) -> tuple[Any, Any, Sequence[int]]:
    symbol = compose(op, attributes, count)
    states = set(symbol.list_auxiliary_states())
    if wrt is None:
        wrt = [n for n in range(count) if f"input{n}" not in states]
    names = [f"input{n}" for n in wrt]
    training = mx.sym.Symbol(ctypes.c_void_p(_mxnet.training_graph(symbol.handle.value, names))) if names else symbol
    return symbol, training, wrt


class _Execution:
    def __init__(self, symbol: Any, training: Any, inputs: Sequence[Array], wrt: Sequence[int], seed: int) -> None:
        self.nodes = _mxnet.nodes(training.handle.value)
        self.wrt = wrt
        self.heads = _mxnet.outputs(symbol.handle.value)
        self.gradients = _mxnet.outputs(training.handle.value)[len(self.heads) :]
        self.roles = self._find_roles(_mxnet.outputs(training.handle.value)[0][0])
        self.values: dict[tuple[int, int], Array] = {}
        variables = {f"input{n}": array for n, array in enumerate(inputs)}
        variables |= self._draw_head_gradients(symbol, variables, np.random.RandomState(seed))
        self.variables = variables
        self.shapes, self.dtypes = _infer(training, variables)

    def _draw_head_gradients(
        self, symbol: Any, known: dict[str, Array], random: np.random.RandomState
    ) -> dict[str, Array]:
        shapes, dtypes = _infer(symbol, known)
        entries = {node["id"]: node["entry"] for node in _mxnet.nodes(symbol.handle.value)}
        used = {node["name"] for node in self.nodes}
        drawn = {}
        for number, (node, output) in enumerate(self.heads):
            if (name := name_head_gradient(number)) in used:
                entry = entries[node] + output
                drawn[name] = random.uniform(-1, 1, shapes[entry]).astype(DTYPE_NAMES[dtypes[entry]])
        return drawn

    def _find_roles(self, forward: int) -> dict[tuple[int, int], Role]:
        roles: dict[tuple[int, int], Role] = {
            entry: ("input", n) for n, entry in zip(self.wrt, self.gradients, strict=True)
        }
        for node in self.nodes:
            if node["id"] == forward:
                roles |= {(forward, n): ("output", n) for n in range(node["num_outputs"])}
            if node["op"] == "null":
                head = find_head(node["name"])
                roles[node["id"], 0] = (
                    ("input", int(node["name"].removeprefix("input"))) if head is None else ("output", head)
                )
        return roles

    def run(self) -> list[VerifiedNode]:
        forward: dict[int, VerifiedNode] = {}
        executed = []
        for node in self.nodes:
            if node["op"] == "null":
                self.values[node["id"], 0] = self.variables[node["name"]]
                continue
            inputs = [self.values[tuple(entry[:2])] for entry in node["inputs"]]
            owner = forward[node["control_deps"][0]] if node["is_backward"] and node["control_deps"] else None
            done = self._run_node(node, inputs, owner)
            forward[node["id"]] = done
            self.values |= {(node["id"], output): value for output, value in enumerate(done.outputs)}
            executed.append(done)
        return executed

    def _run_node(self, node: dict[str, Any], inputs: Sequence[Array], forward: VerifiedNode | None) -> VerifiedNode:
        first, count = node["entry"], node["num_outputs"]
        shapes = [tuple(self.shapes[first + output]) for output in range(count)]
        codes = [self.dtypes[first + output] for output in range(count)]
        # Without inputs there is nothing to infer types from.
        dtypes = [DTYPE_NAMES[code] if code >= 0 else node["attrs"].get("dtype", "float32") for code in codes]
        common = (node["op"], dict(node["attrs"]), tuple(inputs))
        mutated = tuple(node["mutable_inputs"])
        roles = (
            tuple(self.roles.get(tuple(entry[:2])) for entry in node["inputs"]),
            tuple(self.roles.get((node["id"], output)) for output in range(count)),
        )
        if forward is None or not self._needs_forward(node):
            try:
                outputs, after = run_kernel(*common, shapes, dtypes)
                left = find_left(outputs, run_kernel(*common, shapes, dtypes, pattern=1)[0])
                return VerifiedNode(*common, tuple(outputs), left, tuple(after), mutated, *roles)
            except mx.MXNetError:
                if forward is None:
                    raise
        # The operator needs its forward operator, or lacks an attribute that its parser requires (_backward_gather_nd).
        gradient = self._find_gradient(node, forward)
        outputs, others, again = (
            run_with_forward(gradient, forward.attributes, forward.inputs, inputs, shapes, pattern, times)
            for pattern, times in ((0, 1), (1, 1), (0, 2))
        )
        is_repeated = all(first.tobytes() == second.tobytes() for first, second in zip(outputs, again, strict=True))
        reused = () if is_repeated or _keeps_state(forward) else tuple(gradient.saved)
        left = find_left(outputs, others)
        return VerifiedNode(*common, tuple(outputs), left, tuple(inputs), mutated, *roles, gradient, reused)

    def _needs_forward(self, node: dict[str, Any]) -> bool:
        wanted = {output for owner, output in self.gradients if owner == node["id"]}
        return shares_state(node["op"]) or len(wanted) < node["num_outputs"]

    def _find_gradient(self, node: dict[str, Any], forward: VerifiedNode) -> Gradient:
        wanted = [
            (n, output) for n, (owner, output) in zip(self.wrt, self.gradients, strict=True) if owner == node["id"]
        ]
        sources = {tuple(entry[:2]): position for position, entry in enumerate(node["inputs"])}
        by_name = {named["name"]: named["id"] for named in self.nodes}
        heads = [sources.get((by_name.get(name_head_gradient(n), -1), 0)) for n in range(len(self.heads))]
        of_forward = node["control_deps"][0]
        saved = {position: entry[1] for position, entry in enumerate(node["inputs"]) if entry[0] == of_forward}
        read = {tuple(entry[:2]): n for n, entry in enumerate(self.nodes[of_forward]["inputs"])}
        given = {position: read[source] for source, position in sources.items() if source in read}
        outputs = tuple(output for _, output in wanted)
        shares = shares_state(node["op"])
        return Gradient(forward, tuple(n for n, _ in wanted), outputs, tuple(heads), saved, given, shares)


def _keeps_state(forward: VerifiedNode) -> bool:
    return bool(forward.mutated) or bool(_mxnet.operator_info(forward.op)["is_random"])


def run_with_forward(
    gradient: Gradient,
    attributes: Mapping[str, str],
    forward_inputs: Sequence[Array],
    inputs: Sequence[Array],
    output_shapes: Sequence[Shape],
    pattern: int = 0,
    times: int = 1,
) -> list[Array]:
    """Return the outputs of a backward operator that runs `times` times after its forward operator. Others are NaN."""
    heads = [inputs[position] for position in gradient.heads if position is not None]
    found = run_gradient(gradient.forward.op, attributes, forward_inputs, heads, gradient.wrt, pattern, times)
    outputs = [np.full(shape, np.nan) for shape in output_shapes]
    for output, value in zip(gradient.outputs, found, strict=True):
        outputs[output] = value
    return outputs


def _infer(symbol: Any, variables: Mapping[str, Array]) -> tuple[list[Any], list[int]]:
    known = {name: array for name, array in variables.items() if name in symbol.list_inputs()}
    shapes = {name: array.shape for name, array in known.items()}
    return _mxnet.infer(
        symbol.handle.value, shapes, {name: DTYPE_NAMES.index(a.dtype.name) for name, a in known.items()}
    )
