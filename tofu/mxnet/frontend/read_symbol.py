"""Convert a model (an MXNet symbol) to Tofu's graph of a training step.

MXNet adds the gradients, and infers shapes and types. The result is the *training graph*: an MXNet symbol with the
model's outputs and the gradients. Tofu keeps the training graph, because the workers run copies of its operators.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.attributes import is_true
from tofu import _mxnet
from tofu.engine import Source
from tofu.errors import ShapeError, TofuError, UnsupportedError
from tofu.graph.semantic import Graph, Operator, Phase, Tensor, TensorKind
from tofu.mxnet.frontend.blocks import divide_into_blocks
from tofu.mxnet.frontend.data_arguments import find_data
from tofu.mxnet.frontend.head_gradients import copy_repeats, find_head, find_repeats, name_head_gradient
from tofu.mxnet.frontend.inference import (
    DTYPE_NAMES,
    MOST_ELEMENTS,
    Shapes,
    check_names,
    infer_arguments,
    infer_entries,
)
from tofu.mxnet.frontend.origin import Origin
from tofu.mxnet.frontend.recurrent_layers import split_layers
from tofu.mxnet.frontend.refusals import refuse_outputs_without_dimensions, refuse_wrong_kernels
from tofu.mxnet.frontend.symbol_text import in_plain_form
from tofu.mxnet.frontend.unrolled import unroll_recurrences

GRADIENT_SUMS = ("add_n", "ElementWiseSum", "_grad_add", "elemwise_add")
"""Operators by which MXNet adds the gradients of a tensor that several operators read."""

REPLACEMENTS = {"_npi_norm": "np.sqrt(np.sum(np.square(x), axis=...)) instead of np.linalg.norm"}
"""Advice for operators with an output without elements."""


@dataclass(frozen=True)
class SymbolForm:
    """Options to replace operators by operators that can be split in more ways.

    Attributes
    ----------
    is_unrolled
        If True, replace each RNN operator by one cell per time step.
    block_count
        Number of blocks in which operators such as cumsum are computed.
    may_divide
        Function of an operator's name. Returns False if the operator must not be computed in blocks.
    """

    is_unrolled: bool = False
    block_count: int = 1
    may_divide: Callable[[str], bool] = lambda name: True


AS_WRITTEN = SymbolForm()


def infer_operator_shapes(
    op: str, attributes: dict[str, str], inputs: list[tuple[int, ...]]
) -> list[tuple[int, ...]] | None:
    """Return the output shapes that MXNet infers. Return None if MXNet infers none, as for most backward operators."""
    shapes = _mxnet.infer_operator(op, attributes, inputs)
    return None if shapes is None else [tuple(shape or ()) for shape in shapes]


def shares_state(op: str) -> bool:
    """Return True if an operator passes hidden state to its backward operator."""
    description = DESCRIPTIONS.get(op)
    counts = description is not None and bool(description.counts)
    return counts or bool(_mxnet.operator_info(op)["is_layer_backward"])


def wrap_symbol(handle: int) -> Any:
    """Return an `mx.sym.Symbol` for the C++ symbol at address `handle`."""
    return mx.sym.Symbol(ctypes.c_void_p(handle))


def read_graph(
    symbol: Any,
    shapes: Shapes,
    dtypes: Mapping[str, Any] | None = None,
    differentiated: Collection[str] = (),
    updated: Collection[str] = (),
    form: SymbolForm = AS_WRITTEN,
) -> Source:
    """Convert a model to Tofu's graph of a training step.

    Parameters
    ----------
    symbol
        The model, an `mx.sym.Symbol`.
    shapes
        Shapes of the inputs. MXNet infers all other shapes.
    dtypes
        Types of arguments, by name. The default is float32.
    differentiated
        Names of the arguments whose gradients are computed. Empty for inference.
    updated
        Names of the differentiated arguments that an optimizer updates.
    form
        Which operators to replace. By default, none.

    Raises
    ------
    ShapeError
        Names or shapes are missing, unknown or contradictory.
    """
    check_names(symbol, shapes, differentiated)
    symbol = in_plain_form(symbol)
    known_shapes, known_dtypes = infer_arguments(symbol, shapes, dtypes or {})
    if form.is_unrolled:
        symbol = unroll_recurrences(symbol, known_shapes, known_dtypes)
    if differentiated:
        symbol = split_layers(symbol, known_shapes, known_dtypes)
    if form.block_count > 1:
        symbol = divide_into_blocks(symbol, known_shapes, known_dtypes, form.block_count, form.may_divide)
    differentiated_names = [name for name in symbol.list_arguments() if name in set(differentiated)]
    symbol, training = _differentiate(symbol, differentiated_names)
    data_names = find_data(symbol, shapes, find_labels(symbol))
    graph = _Reader(symbol, training, known_shapes, known_dtypes, data_names, differentiated_names, updated).read()
    refuse_wrong_kernels(graph)
    refuse_outputs_without_dimensions(graph)
    return Source(graph, training)


def _differentiate(symbol: Any, differentiated_names: Sequence[str]) -> tuple[Any, Any]:
    if not differentiated_names:
        return symbol, symbol
    training = wrap_symbol(_mxnet.training_graph(symbol.handle.value, differentiated_names))
    arguments = set(training.list_arguments())
    # Without copies, MXNet would use the gradient of only the last of equal outputs.
    if any(name_head_gradient(output) in arguments for output in find_repeats(symbol)):
        symbol = copy_repeats(symbol)
        training = wrap_symbol(_mxnet.training_graph(symbol.handle.value, differentiated_names))
    return symbol, training


class _Reader:
    def __init__(
        self,
        symbol: Any,
        training: Any,
        shapes: Mapping[str, tuple[int, ...]],
        type_flags: Mapping[str, int],
        data_names: Collection[str],
        differentiated: Sequence[str],
        updated: Collection[str],
    ) -> None:
        handle = training.handle.value
        self.nodes = _mxnet.nodes(handle)
        # Outputs of the model, then gradients. Each is a node and the number of the node's output.
        self.output_entries: list[tuple[int, int]] = [(node, index) for node, index in _mxnet.outputs(handle)]
        self.output_count = len(symbol.list_outputs())
        self.entry_shapes, self.entry_types = infer_entries(training, shapes, type_flags)
        self.data_names = data_names
        self.differentiated = differentiated
        self.updated = updated
        self.arguments = set(symbol.list_arguments())
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.tensor_by_entry: dict[tuple[int, int], int] = {}
        self.operator_by_node: dict[int, int] = {}
        self.name_counts: Counter[str] = Counter()

    def read(self) -> Graph:
        forward_nodes = self._find_ancestors(node for node, _ in self.output_entries[: self.output_count])
        for node in self.nodes:
            if node["op"] == "null":
                self._add_tensors(node, [node["name"]], self._classify_variable(node))
            else:
                self._add_operator(node, node["id"] in forward_nodes)
        gradients = {
            self._find_variable(name): self.tensor_by_entry[entry]
            for name, entry in zip(self.differentiated, self.output_entries[self.output_count :], strict=True)
        }
        return Graph(
            tensors=tuple(self.tensors),
            operators=tuple(self.operators),
            outputs=tuple(self.tensor_by_entry[entry] for entry in self.output_entries[: self.output_count]),
            gradients=gradients,
            updated=frozenset(self._find_variable(name) for name in self.updated if name in self.differentiated),
        )

    def _find_variable(self, name: str) -> int:
        for position, tensor in enumerate(self.tensors):
            if tensor.name == name and tensor.kind is not TensorKind.INTERMEDIATE:
                return position
        # An argument that no output depends on has a zero gradient, which is not in the graph.
        raise TofuError(f"No output depends on the argument {name}. Set its grad_req to 'null'.")

    def _classify_variable(self, node: Mapping[str, Any]) -> TensorKind:
        if node["is_aux"]:
            return TensorKind.AUXILIARY
        if node["name"] in self.data_names:
            return TensorKind.INPUT
        if node["name"] not in self.arguments and find_head(node["name"]) is not None:
            return TensorKind.HEAD_GRADIENT
        return TensorKind.PARAMETER

    def _add_tensors(self, node: Mapping[str, Any], names: Iterable[str], kind: TensorKind) -> tuple[int, ...]:
        positions = []
        for index, name in enumerate(names):
            entry = node["entry"] + index
            shape, type_flag = self.entry_shapes[entry], self.entry_types[entry]
            if shape is None or any(extent < 0 for extent in shape) or type_flag < 0:
                raise ShapeError(
                    f"MXNet cannot infer the shape or type of {name} (operator {node['op']}); it found {shape}."
                )
            if prod(shape) > MOST_ELEMENTS:
                raise ShapeError(
                    f"{name} (operator {node['op']}) would have {prod(shape):,} elements; a tensor has at most {MOST_ELEMENTS:,}. "
                    "Use smaller shapes."
                )
            if 0 in shape:
                raise UnsupportedError(
                    f"{name} (operator {node['op']}) has the shape {tuple(shape)}, and a tensor without elements cannot be split or "
                    f"replicated. Use {REPLACEMENTS.get(node['op'], 'other operators or shapes')}."
                )
            dtype = DTYPE_NAMES[type_flag]
            self.tensor_by_entry[node["id"], index] = len(self.tensors)
            positions.append(len(self.tensors))
            self.tensors.append(Tensor(name, tuple(shape), dtype, np.dtype(dtype).itemsize, kind))
        return tuple(positions)

    def _add_operator(self, node: Mapping[str, Any], is_forward: bool) -> None:
        is_gradient = node["is_backward"] and node["control_deps"]
        forward = self.operator_by_node.get(node["control_deps"][0]) if is_gradient else None
        shares_name = forward is not None and node["name"] == self.operators[forward].name  # Custom's gradient does
        name = self._make_unique(f"{node['name']}_backward" if shares_name else node["name"])
        count = node["num_outputs"]
        output_names = [f"{name}_output"] if count == 1 else [f"{name}_output{i}" for i in range(count)]
        outputs = self._add_tensors(node, output_names, TensorKind.INTERMEDIATE)
        self.operator_by_node[node["id"]] = len(self.operators)
        self.operators.append(
            Operator(
                name=name,
                op=node["op"],
                attributes=dict(node["attrs"]),
                inputs=tuple(self.tensor_by_entry[source, index] for source, index in node["inputs"]),
                outputs=outputs,
                phase=Phase.FORWARD if is_forward else Phase.BACKWARD,
                forward=forward,
                stateful=forward is not None and shares_state(node["op"]),
                mutates=(*node["mutable_inputs"], *_list_undeclared_changes(node)),
                ignored=tuple(node["ignored_inputs"]),
                annotations=frozenset(name for name in node["attrs"] if name.startswith("__")),
                sums_gradients=not is_forward and forward is None and node["op"] in GRADIENT_SUMS,
                origin=Origin(node["id"]),
            )
        )

    def _make_unique(self, name: str) -> str:
        self.name_counts[name] += 1  # all sums of gradients have the name "sum_grad"
        return name if self.name_counts[name] == 1 else f"{name}~{self.name_counts[name]}"

    def _find_ancestors(self, nodes: Iterable[int]) -> set[int]:
        ancestors: set[int] = set()
        unvisited = list(nodes)
        while unvisited:
            node = unvisited.pop()
            if node not in ancestors:
                ancestors.add(node)
                unvisited.extend(source for source, _ in self.nodes[node]["inputs"])
                unvisited.extend(self.nodes[node]["control_deps"])
        return ancestors


def _list_undeclared_changes(node: Mapping[str, Any]) -> tuple[int, ...]:
    return (1,) if node["op"] == "BatchNorm_v1" and is_true(node["attrs"], "fix_gamma", True) else ()


def find_labels(symbol: Any) -> frozenset[str]:
    """Return the names of arguments that operators read only as labels."""
    nodes = _mxnet.nodes(symbol.handle.value)
    input_names_by_op: dict[str, list[str]] = {}
    labels, others = set[str](), set[str]()
    for node in nodes:
        if node["op"] == "null":
            continue
        if node["op"] not in input_names_by_op:
            input_names_by_op[node["op"]] = _mxnet.operator_info(node["op"])["input_names"]
        input_names = input_names_by_op[node["op"]]
        for slot, (source, _) in enumerate(node["inputs"]):
            if nodes[source]["op"] == "null":
                is_label = slot < len(input_names) and input_names[slot].endswith("label")
                (labels if is_label else others).add(nodes[source]["name"])
    return frozenset(labels - others)


def read_training(symbol: Any, shapes: Shapes) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return the shapes of inputs and labels by name, and the names of all other arguments.

    Raise ShapeError if MXNet cannot infer a shape.
    """
    labels = find_labels(symbol)
    all_shapes, _ = infer_arguments(symbol, shapes, {})
    names = symbol.list_arguments()
    data = find_data(symbol, shapes, labels)
    inputs = {name: all_shapes[name] for name in names if name in data}
    return inputs, [name for name in names if name not in inputs]
