"""Run an operator and the operators of its gradient one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx
import numpy as np

from tdl_ops.mxnet.attributes import parse_attribute
from tofu import _mxnet
from tofu.mxnet.frontend.head_gradients import find_head, name_head_gradient
from tofu.mxnet.frontend.inference import DTYPE_NAMES, infer_entries
from tofu.mxnet.frontend.read_symbol import shares_state, wrap_symbol
from tofu.mxnet.verify.kernels import KERNEL_ERRORS, compose, find_unwritten, run_gradient, run_kernel
from tofu.verification.cuts import Role
from tofu.verification.kernel import Array, Shape


@dataclass(frozen=True)
class Gradient:
    """A backward operator that runs only together with its forward operator.

    Attributes
    ----------
    forward
        The forward operator.
    wrt
        Positions of the forward operator's inputs whose gradients are computed.
    outputs
        Positions of these gradients among the backward operator's outputs.
    head_inputs
        For each output of the forward operator, the position of its gradient among the backward operator's inputs, or
        None.
    forward_outputs
        Inputs of the backward operator that are outputs of the forward operator: {input: output}.
    forward_inputs
        Inputs of the backward operator that are also inputs of the forward operator: {backward input: forward input}.
    shares_state
        True if both operators must be split along the same axis.
    """

    forward: VerifiedNode
    wrt: tuple[int, ...]
    outputs: tuple[int, ...]
    head_inputs: tuple[int | None, ...]
    forward_outputs: Mapping[int, int]
    forward_inputs: Mapping[int, int]
    shares_state: bool


@dataclass(frozen=True)
class VerifiedNode:
    """An operator with its inputs and outputs after a run.

    Attributes
    ----------
    unwritten
        For each output, a mask with True for elements that the kernel does not write.
    mutated_inputs
        Positions of the inputs that MXNet declares as changed by the kernel.
    inputs_after
        The inputs after the run.
    input_roles, output_roles
        For each tensor: ("output", 0) for output 0 of the forward operator, and for the gradient of this output.
    reused_outputs
        Positions of inputs that are outputs of the forward operator. Empty if a second run gives the same results.
    """

    op: str
    attributes: Mapping[str, str]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    unwritten: tuple[Array, ...]
    inputs_after: tuple[Array, ...]
    mutated_inputs: tuple[int, ...]
    input_roles: tuple[Role | None, ...]
    output_roles: tuple[Role | None, ...]
    gradient: Gradient | None = None
    reused_outputs: tuple[int, ...] = ()

    @property
    def undeclared_changes(self) -> tuple[int, ...]:
        """Positions of inputs that the kernel changes, although MXNet declares no change."""
        declared = {*self.mutated_inputs, *_mxnet.overwritten_inputs(self.op, self.attributes)}
        pairs = enumerate(zip(self.inputs, self.inputs_after, strict=True))
        changed = tuple(n for n, (old, new) in pairs if n not in declared and old.tobytes() != new.tobytes())
        return changed if declared.intersection(self.reused_outputs) else (*changed, *self.reused_outputs)

    @property
    def values(self) -> dict[str, Any]:
        """The attributes as Python values, for example `{"num_hidden": 5}`."""
        return {name: parse_attribute(text) for name, text in self.attributes.items()}

    def computes(self, output: int) -> bool:
        """Return True if the kernel computed output number `output`."""
        return self.gradient is None or output in self.gradient.outputs

    def run(
        self, attributes: Mapping[str, str], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> tuple[list[Array], list[Array]]:
        """Run the kernel on new inputs. Return the outputs, and the inputs after the run."""
        return run_kernel(self.op, attributes, inputs, output_shapes, [output.dtype.name for output in self.outputs])

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> list[Array] | None:
        """Run the kernel with the attributes `values` on `inputs`. Return the outputs, or None if MXNet refuses."""
        try:
            return self.run(write_attributes(values), inputs, output_shapes)[0]
        except KERNEL_ERRORS:
            return None

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the output shapes for the attributes `values` and the input shapes `shapes`.

        Return None if MXNet refuses them.
        """
        try:
            inferred = _mxnet.infer_operator(self.op, write_attributes(values), shapes)
        except RuntimeError:
            return None
        if inferred is None or any(shape is None for shape in inferred):
            return None
        return tuple(tuple(shape or ()) for shape in inferred)


def write_attributes(values: Mapping[str, Any]) -> dict[str, str]:
    """Convert attributes to texts, as MXNet expects them."""
    return {name: str(value) for name, value in values.items()}


def execute_training_graph(
    op: str, attributes: Mapping[str, object], inputs: Sequence[Array], wrt: Sequence[int] | None, seed: int
) -> list[VerifiedNode]:
    """Run `op` and the operators of its gradient.

    `wrt` lists the inputs that get gradients, by default all except auxiliary states such as moving means. `seed` is
    for the random gradients of the outputs.
    """
    symbol, training, wrt = _build_training_graph(op, write_attributes(attributes), len(inputs), wrt)
    return _Execution(symbol, training, inputs, wrt, seed).run()


def list_operators(op: str, attributes: Mapping[str, str], count: int, wrt: Sequence[int] | None) -> set[str]:
    """Return the names of the operators that compute `op` and its gradient."""
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
    training = wrap_symbol(_mxnet.training_graph(symbol.handle.value, names)) if names else symbol
    return symbol, training, wrt


class _Execution:
    def __init__(self, symbol: Any, training: Any, inputs: Sequence[Array], wrt: Sequence[int], seed: int) -> None:
        self.nodes = _mxnet.nodes(training.handle.value)
        self.wrt = wrt
        self.output_entries = _mxnet.outputs(symbol.handle.value)
        self.gradient_entries = _mxnet.outputs(training.handle.value)[len(self.output_entries) :]
        self.roles = self._find_roles(_mxnet.outputs(training.handle.value)[0][0])
        self.values: dict[tuple[int, int], Array] = {}
        variables = {f"input{n}": array for n, array in enumerate(inputs)}
        variables |= self._draw_head_gradients(symbol, variables, np.random.RandomState(seed))
        self.variables = variables
        self.shapes, self.dtypes = _infer(training, variables)

    def _draw_head_gradients(
        self, symbol: Any, inputs: dict[str, Array], random: np.random.RandomState
    ) -> dict[str, Array]:
        shapes, dtypes = _infer(symbol, inputs)
        first_entries = {node["id"]: node["entry"] for node in _mxnet.nodes(symbol.handle.value)}
        node_names = {node["name"] for node in self.nodes}
        head_gradients = {}
        for number, (node, output) in enumerate(self.output_entries):
            if (name := name_head_gradient(number)) in node_names:
                entry = first_entries[node] + output
                head_gradients[name] = random.uniform(-1, 1, shapes[entry]).astype(DTYPE_NAMES[dtypes[entry]])
        return head_gradients

    def _find_roles(self, forward: int) -> dict[tuple[int, int], Role]:
        roles: dict[tuple[int, int], Role] = {
            entry: ("input", n) for n, entry in zip(self.wrt, self.gradient_entries, strict=True)
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
        executed: dict[int, VerifiedNode] = {}
        for node in self.nodes:
            if node["op"] == "null":
                self.values[node["id"], 0] = self.variables[node["name"]]
                continue
            inputs = [self.values[tuple(entry[:2])] for entry in node["inputs"]]
            forward = executed[node["control_deps"][0]] if node["is_backward"] and node["control_deps"] else None
            verified = executed[node["id"]] = self._run_node(node, inputs, forward)
            self.values |= {(node["id"], output): value for output, value in enumerate(verified.outputs)}
        return list(executed.values())

    def _run_node(self, node: dict[str, Any], inputs: Sequence[Array], forward: VerifiedNode | None) -> VerifiedNode:
        first, count = node["entry"], node["num_outputs"]
        shapes = [tuple(self.shapes[first + output]) for output in range(count)]
        type_flags = [self.dtypes[first + output] for output in range(count)]
        # Without inputs there is nothing to infer types from.
        dtypes = [DTYPE_NAMES[flag] if flag >= 0 else node["attrs"].get("dtype", "float32") for flag in type_flags]
        call = (node["op"], dict(node["attrs"]), tuple(inputs))
        mutated_inputs = tuple(node["mutable_inputs"])
        roles = (
            tuple(self.roles.get(tuple(entry[:2])) for entry in node["inputs"]),
            tuple(self.roles.get((node["id"], output)) for output in range(count)),
        )
        if forward is None or not self._needs_forward(node):
            try:
                outputs, inputs_after = run_kernel(*call, shapes, dtypes)
                unwritten = find_unwritten(outputs, run_kernel(*call, shapes, dtypes, pattern=1)[0])
                return VerifiedNode(*call, tuple(outputs), unwritten, tuple(inputs_after), mutated_inputs, *roles)
            except mx.MXNetError:
                if forward is None:
                    raise
        # The operator needs its forward operator, or lacks an attribute that its parser requires (_backward_gather_nd).
        gradient = self._find_gradient(node, forward)
        outputs, outputs_on_other_pattern, outputs_of_second_run = (
            run_with_forward(gradient, forward.attributes, forward.inputs, inputs, shapes, pattern, times)
            for pattern, times in ((0, 1), (1, 1), (0, 2))
        )
        pairs = zip(outputs, outputs_of_second_run, strict=True)
        is_repeatable = all(first.tobytes() == second.tobytes() for first, second in pairs)
        reused_outputs = () if is_repeatable or _keeps_state(forward) else tuple(gradient.forward_outputs)
        unwritten = find_unwritten(outputs, outputs_on_other_pattern)
        results = (tuple(outputs), unwritten, tuple(inputs))
        return VerifiedNode(*call, *results, mutated_inputs, *roles, gradient, reused_outputs)

    def _needs_forward(self, node: dict[str, Any]) -> bool:
        gradient_outputs = {output for number, output in self.gradient_entries if number == node["id"]}
        return shares_state(node["op"]) or len(gradient_outputs) < node["num_outputs"]

    def _find_gradient(self, node: dict[str, Any], forward: VerifiedNode) -> Gradient:
        gradients = [
            (n, output)
            for n, (number, output) in zip(self.wrt, self.gradient_entries, strict=True)
            if number == node["id"]
        ]
        slot_by_entry = {tuple(entry[:2]): slot for slot, entry in enumerate(node["inputs"])}
        number_by_name = {other["name"]: other["id"] for other in self.nodes}
        head_numbers = [number_by_name.get(name_head_gradient(n), -1) for n in range(len(self.output_entries))]
        forward_number = node["control_deps"][0]
        forward_slots = {tuple(entry[:2]): slot for slot, entry in enumerate(self.nodes[forward_number]["inputs"])}
        return Gradient(
            forward,
            wrt=tuple(n for n, _ in gradients),
            outputs=tuple(output for _, output in gradients),
            head_inputs=tuple(slot_by_entry.get((number, 0)) for number in head_numbers),
            forward_outputs={slot: entry[1] for slot, entry in enumerate(node["inputs"]) if entry[0] == forward_number},
            forward_inputs={
                slot: forward_slots[entry] for entry, slot in slot_by_entry.items() if entry in forward_slots
            },
            shares_state=shares_state(node["op"]),
        )


def _keeps_state(forward: VerifiedNode) -> bool:
    return bool(forward.mutated_inputs) or bool(_mxnet.operator_info(forward.op)["is_random"])


def run_with_forward(
    gradient: Gradient,
    attributes: Mapping[str, str],
    forward_inputs: Sequence[Array],
    inputs: Sequence[Array],
    output_shapes: Sequence[Shape],
    pattern: int = 0,
    times: int = 1,
) -> list[Array]:
    """Run a forward operator once, and its backward operator `times` times. Return the backward operator's outputs.

    The backward operator computes only the gradients in `gradient.wrt`. The other outputs are filled with NaN.
    """
    head_gradients = [inputs[slot] for slot in gradient.head_inputs if slot is not None]
    values = run_gradient(gradient.forward.op, attributes, forward_inputs, head_gradients, gradient.wrt, pattern, times)
    outputs = [np.full(shape, np.nan) for shape in output_shapes]
    for output, value in zip(gradient.outputs, values, strict=True):
        outputs[output] = value
    return outputs


def _infer(symbol: Any, variables: Mapping[str, Array]) -> tuple[list[Any], list[int]]:
    shapes = {name: array.shape for name, array in variables.items()}
    return infer_entries(symbol, shapes, {n: DTYPE_NAMES.index(array.dtype.name) for n, array in variables.items()})
