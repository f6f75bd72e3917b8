"""Run single MXNet kernels on NumPy arrays, and read the attributes and inputs of MXNet's operators."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB
from mxnet.ndarray.register import _imperative_invoke
from mxnet.symbol.register import _symbol_creator

from tdl_ops.mxnet import DESCRIPTIONS
from tofu import _mxnet
from tofu.errors import UnsupportedError, suggest_several
from tofu.mxnet.frontend.inference import DTYPE_NAMES
from tofu.verification.kernel import Array, Shape

# Errors that MXNet raises in Python. MXNetError derives from RuntimeError.
KERNEL_ERRORS = (RuntimeError, ValueError, IndexError)

ERROR_LOCATION = re.compile(r"\[[\d:]+\] \S+:\d+: (Check failed: .* : )?")  # time and source line of an MXNet error
# Errors by which MXNet refuses shapes or attributes: type, and a part of the text. tofu._mxnet raises them as RuntimeErrors without
# "Check failed".
REFUSALS: tuple[tuple[type[Exception], str], ...] = (
    (
        mx.MXNetError,
        r"Check failed|Shape inconsistent|could not create a|Cannot use|[Uu]nsupported|not supported|only available",
    ),
    (mx.MXNetError, r"Required parameter|Invalid (Parameter|Input)"),
    (RuntimeError, r"\AError in operator |Check failed"),
    (IndexError, r"IndexError: index \S+ is out of bounds"),
)

RANDOM_SEED = 7  # set before each kernel, so that a random operator draws the same numbers for the same shapes

# Kind of type -> two numbers. A kernel runs twice, on memory filled with the first and then with the second. An element
# that keeps its number in both runs is not written. The first number is NaN. The second changes if anything is added to it.
PATTERNS: dict[str, tuple[float, float]] = {"f": (np.nan, -812.5), "i": (85, 42), "u": (85, 42), "b": (1, 0)}
GUARD_ELEMENTS = 4096
"""Elements after each output. If one changes, the kernel has written beyond its output."""


def run_kernel(
    op: str,
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    output_shapes: Sequence[Shape],
    output_dtypes: Sequence[str],
    pattern: int = 0,
) -> tuple[list[Array], list[Array]]:
    """Run `op` as in training. Return its outputs, and its inputs after the run.

    Before the run, outputs are filled with `PATTERNS[pattern]`, to find unwritten elements. Raise mxnet.MXNetError if
    MXNet refuses the call, and RuntimeError if the kernel writes beyond an output.
    """
    plain = _mxnet.plain_kernel(op, output_shapes, [DTYPE_NAMES.index(dtype) for dtype in output_dtypes])
    if plain is not None:  # execution graphs use this kernel instead
        op, attributes = plain[0], {**attributes, **plain[1]}
    input_arrays = [mx.nd.array(array, dtype=array.dtype) for array in inputs]
    guard_size = _choose_guard_size([*(array.dtype.name for array in inputs), *output_dtypes])
    guarded_outputs = [
        GuardedArray(shape, dtype, pattern, guard_size)
        for shape, dtype in zip(output_shapes, output_dtypes, strict=True)
    ]
    output_arrays = [output.array for output in guarded_outputs]
    if _mxnet.operator_info(op)["is_random"]:
        mx.random.seed(RANDOM_SEED)
    names, values, handle = list(attributes), list(attributes.values()), find_operator(op).value
    with mx.autograd.train_mode():
        _imperative_invoke(handle, input_arrays, names, values, output_arrays, is_np_op=False, output_is_list=True)
    outputs = [output.read(f"output {n} of {op}") for n, output in enumerate(guarded_outputs)]
    return outputs, [array.asnumpy() for array in input_arrays]


def run_gradient(
    op: str,
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    head_gradients: Sequence[Array],
    wrt: Sequence[int],
    pattern: int = 0,
    times: int = 1,
) -> list[Array]:
    """Run `op`, then its backward operator `times` times. Return the gradients of the inputs at the positions `wrt`."""
    symbol = compose(op, attributes, len(inputs))
    arrays = {f"input{n}": mx.nd.array(array, dtype=array.dtype) for n, array in enumerate(inputs)}
    states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states()}
    guard_size = _choose_guard_size([array.dtype.name for array in inputs])
    guarded = {f"input{n}": GuardedArray(inputs[n].shape, inputs[n].dtype.name, pattern, guard_size) for n in wrt}
    gradients = {name: gradient.array for name, gradient in guarded.items()}
    requests = {name: "write" if name in gradients else "null" for name in arrays}
    executor = symbol.bind(mx.cpu(), arrays, args_grad=gradients, grad_req=requests, aux_states=states)
    mx.random.seed(RANDOM_SEED)
    executor.forward(is_train=True)
    heads = [mx.nd.array(gradient, dtype=gradient.dtype) for gradient in head_gradients]
    for _ in range(times):
        executor.backward(heads or None)
    return [guarded[f"input{n}"].read(f"the gradient of input {n} of {op}") for n in wrt]


def find_unwritten(outputs: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
    """Return a mask for each output: True for elements that the kernel never wrote.

    `outputs` and `others` are from two runs. Before each run, all elements get one value, which differs between the
    runs.
    """
    return tuple(
        _has_pattern(first, 0) & _has_pattern(second, 1) for first, second in zip(outputs, others, strict=True)
    )


def _has_pattern(array: Array, pattern: int) -> Array:
    value = PATTERNS[array.dtype.kind][pattern]
    return np.isnan(array) if np.isnan(value) else array == value


def _choose_guard_size(dtypes: Iterable[str]) -> int:
    return 0 if "float32" in dtypes else GUARD_ELEMENTS  # oneDNN cannot write into part of an array


class GuardedArray:
    """An output array, followed by `guard_size` elements that a kernel must not change."""

    def __init__(self, shape: Shape, dtype: str, pattern: int, guard_size: int) -> None:
        self._pattern, self._size = pattern, prod(shape)
        value = PATTERNS[np.dtype(dtype).kind][pattern]
        memory_shape = (self._size + guard_size,) if guard_size else shape
        self._memory = mx.nd.full(memory_shape, value, dtype=dtype)
        self.array = self._memory[: self._size].reshape(shape) if guard_size else self._memory

    def read(self, title: str) -> Array:
        """Return the output. Raise RuntimeError if the kernel wrote beyond it."""
        elements: Array = self.array.asnumpy()
        if not _has_pattern(self._memory.asnumpy().ravel()[self._size :], self._pattern).all():
            raise RuntimeError(
                f"the kernel writes behind {title}, of shape {elements.shape}: it takes its size from another tensor, whose region the "
                "description does not name. Name it with unread()"
            )
        return elements


def compose(op: str, attributes: Mapping[str, str], count: int | None) -> Any:
    """Return an MXNet graph that applies `op` to variables input0, input1, ...

    If `count` is None, MXNet chooses the number of variables.
    """
    names, values, handle = list(attributes), list(attributes.values()), find_operator(op).value
    variables = [mx.sym.Variable(f"input{n}") for n in range(count or 0)]
    return _symbol_creator(handle, variables, None, names, values, "operator", is_np_op=False)


def find_operator(op: str) -> ctypes.c_void_p:
    """Return MXNet's handle of an operator. Raise UnsupportedError for an unknown name."""
    handle = ctypes.c_void_p()
    if _LIB.NNGetOpHandle(op.encode(), ctypes.byref(handle)) != 0:
        raise UnsupportedError(f"MXNet has no operator {op}{suggest_several(op, DESCRIPTIONS)}")
    return handle


def is_refusal(error: Exception) -> bool:
    """Return True for errors about shapes or attributes that MXNet does not support."""
    return any(type(error) is kind and re.search(text, str(error)) for kind, text in REFUSALS)


def describe_refusal(error: Exception) -> str:
    """Return the message of an MXNet error as one line."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    message = next((line for line in lines if "MXNetError: " in line), lines[-1] if lines else None)
    if message is None:
        return type(error).__name__
    return ERROR_LOCATION.sub("", message.split("MXNetError: ")[-1]).rstrip(":")


_SPARSE = "row_sparse"


@cache
def list_choices(op: str) -> dict[str, tuple[str, ...]]:
    """Return the possible values of all attributes that are booleans or accept only certain words.

    >>> list_choices("SwapAxis"), list_choices("take")
    ({}, {'mode': ('clip', 'raise', 'wrap')})
    """
    choices = {name: _read_choices(declared) for name, declared in list_declarations(op)}
    return {name: values for name, values in choices.items() if values}


def _read_choices(declared: str) -> tuple[str, ...]:
    if declared.startswith("boolean,"):
        return ("False", "True")
    if not declared.startswith("{") or _SPARSE in declared:
        return ()
    words = re.findall(r"'(\w+)'|(None)", declared[: declared.index("}")])
    values = tuple(quoted or none_word for quoted, none_word in words)
    return tuple(value for value in values if value != "bfloat16" and (value in DTYPE_NAMES or "float32" not in values))


def list_declarations(op: str) -> list[tuple[str, str]]:
    """Return the name and declared type of each attribute and input of an operator."""
    arguments = mx.operator.get_operator_arguments(op)
    return list(zip(arguments.names, arguments.types, strict=True))
