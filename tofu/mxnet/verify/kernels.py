"""X"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from tdl_ops.mxnet import DESCRIPTIONS
from tofu import _mxnet
from tofu.errors import UnsupportedError
from tofu.verification.kernel import Array, Shape

# What MXNet's errors become in Python; the first is the base of its own.
KERNEL_ERRORS = (RuntimeError, ValueError, IndexError)

PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: (Check failed: .* : )?")  # of an error in MXNet's sources, with the time
# How MXNet says that it does not take shapes or attributes: the type of the error, and a part of its text. Its C++ is asked through
# tofu._mxnet too, whose errors are RuntimeErrors that have lost their "Check failed".
REFUSALS: tuple[tuple[type[Exception], str], ...] = (
    (
        mx.MXNetError,
        r"Check failed|Shape inconsistent|could not create a|Cannot use|[Uu]nsupported|not supported|only available",
    ),
    (mx.MXNetError, r"Required parameter|Invalid (Parameter|Input)"),
    (RuntimeError, r"\AError in operator |Check failed"),
    (IndexError, r"IndexError: index \S+ is out of bounds"),
)

# MXNet's type flags (mshadow/base.h) in order.
SEED = 7  # of every kernel, so that a random operator draws the same numbers for the same shapes
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")

# What memory holds before a kernel runs, by the kind of its type: two patterns, and a cell that keeps both is not written. One is no
# number, the other stays itself under no addition.
PATTERNS: dict[str, tuple[float, float]] = {"f": (np.nan, -812.5), "i": (85, 42), "u": (85, 42), "b": (1, 0)}
GUARD_CELLS = 4096
"""Behind each output: a kernel that takes its size from another tensor than a description says writes there."""


def run_kernel(
    op: str,
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    output_shapes: Sequence[Shape],
    output_dtypes: Sequence[str],
    pattern: int = 0,
) -> tuple[list[Array], list[Array]]:
    """Run `op` as in training. Returns its outputs, hidden ones too, and its inputs as it left them.

    Outputs are filled with one of the `PATTERNS` beforehand, so that cells that the kernel does not write are seen. Raises
    mxnet.MXNetError where MXNet refuses the shapes or the attributes, and for stateful backward operators, and RuntimeError where the
    kernel writes behind an output.
    """
    plain = _mxnet.plain_kernel(op, output_shapes, [DTYPES.index(dtype) for dtype in output_dtypes])
    if plain is not None:  # what execution graphs run in its place
        op, attributes = plain[0], {**attributes, **plain[1]}
    given = [mx.nd.array(array, dtype=array.dtype) for array in inputs]
    guard = choose_guard([*(array.dtype.name for array in inputs), *output_dtypes])
    kinds = zip(output_shapes, output_dtypes, strict=True)
    guarded = [Guarded(shape, dtype, pattern, guard) for shape, dtype in kinds]
    results = [one.array for one in guarded]
    outputs = ctypes.cast(_handles(results), ctypes.POINTER(ctypes.c_void_p))
    if _mxnet.operator_info(op)["is_random"]:
        mx.random.seed(SEED)
    with mx.autograd.train_mode():
        check_call(
            _LIB.MXImperativeInvoke(
                find_operator(op),
                len(given),
                _handles(given),
                ctypes.byref(ctypes.c_int(len(results))),
                ctypes.byref(outputs),
                len(attributes),
                _strings(attributes.keys()),
                _strings(attributes.values()),
            )
        )
    return [one.read(f"output {n} of {op}") for n, one in enumerate(guarded)], [array.asnumpy() for array in given]


def run_gradient(
    op: str,
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    head_gradients: Sequence[Array],
    wrt: Sequence[int],
    pattern: int = 0,
    times: int = 1,
) -> list[Array]:
    """Run `op` and its backward operator together and return the gradients of the inputs `wrt`, filled with a pattern beforehand.

    For backward operators that share hidden state with their forward operator, so that they cannot be run alone. The backward operator
    runs `times` times after the one forward operator.
    """
    symbol = compose(op, attributes, len(inputs))
    arrays = {f"input{n}": mx.nd.array(array, dtype=array.dtype) for n, array in enumerate(inputs)}
    states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states()}
    guard = choose_guard([array.dtype.name for array in inputs])
    guarded = {f"input{n}": Guarded(inputs[n].shape, inputs[n].dtype.name, pattern, guard) for n in wrt}
    gradients = {name: one.array for name, one in guarded.items()}
    requests = {name: "write" if name in gradients else "null" for name in arrays}
    executor = symbol.bind(mx.cpu(), arrays, args_grad=gradients, grad_req=requests, aux_states=states)
    mx.random.seed(SEED)
    executor.forward(is_train=True)
    heads = [mx.nd.array(gradient, dtype=gradient.dtype) for gradient in head_gradients]
    for _ in range(times):
        executor.backward(heads or None)
    return [guarded[f"input{n}"].read(f"the gradient of input {n} of {op}") for n in wrt]


def find_left(outputs: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
    """Which cells a kernel left as they were: `outputs` of a run on the first pattern, `others` of one on the second."""
    return tuple(_holds(one, 0) & _holds(other, 1) for one, other in zip(outputs, others, strict=True))


def _holds(array: Array, pattern: int) -> Array:
    value = PATTERNS[array.dtype.kind][pattern]
    return np.isnan(array) if np.isnan(value) else array == value


def choose_guard(dtypes: Iterable[str]) -> int:
    """The cells behind each output of a kernel of these types: none in single precision, since oneDNN does not write into a part of an
    array, and MXNet would have another kernel do it.
    """
    return 0 if "float32" in dtypes else GUARD_CELLS


class Guarded:
    """An output filled with a pattern, and `guard` cells behind it that have to keep that."""

    def __init__(self, shape: Shape, dtype: str, pattern: int, guard: int) -> None:
        self._pattern, self._count = pattern, prod(shape)
        value = PATTERNS[np.dtype(dtype).kind][pattern]
        memory = (self._count + guard,) if guard else shape
        self._memory = mx.nd.full(memory, value, dtype=dtype)
        self.array = self._memory[: self._count].reshape(shape) if guard else self._memory

    def read(self, what: str) -> Array:
        """The output. Raises RuntimeError where something was written behind it."""
        cells: Array = self.array.asnumpy()
        if not _holds(self._memory.asnumpy().ravel()[self._count :], self._pattern).all():
            raise RuntimeError(
                f"the kernel writes behind {what}, of shape {cells.shape}: it takes its size from another tensor, whose regions the "
                "description does not name. Name them with unread()"
            )
        return cells


def compose(op: str, attributes: Mapping[str, str], count: int | None) -> Any:
    """The symbol of one operator over variables input0, input1, ..; its outputs are the visible ones.

    Without a count it has the inputs, by MXNet's names, that its attributes ask for.
    """
    symbol = ctypes.c_void_p()
    check_call(
        _LIB.MXSymbolCreateAtomicSymbol(
            find_operator(op),
            len(attributes),
            _strings(attributes.keys()),
            _strings(attributes.values()),
            ctypes.byref(symbol),
        )
    )
    composed = mx.sym.Symbol(symbol)
    variables = [mx.sym.Variable(f"input{n}") for n in range(count or 0)]
    check_call(_LIB.NNSymbolCompose(composed.handle, b"operator", len(variables), None, _handles(variables)))
    return composed


def find_operator(op: str) -> ctypes.c_void_p:
    """MXNet's handle of an operator. Raises UnsupportedError, with the names that are near, where there is none."""
    handle = ctypes.c_void_p()
    if _LIB.NNGetOpHandle(op.encode(), ctypes.byref(handle)) != 0:
        near = get_close_matches(op, DESCRIPTIONS, n=3)
        raise UnsupportedError(f"MXNet has no operator {op}" + (f"; did you mean {', '.join(near)}?" if near else "."))
    return handle


def is_refusal(error: Exception) -> bool:
    """Whether an error is MXNet's way to say that it does not take shapes or attributes, and no defect of what asked it."""
    return any(type(error) is kind and re.search(text, str(error)) for kind, text in REFUSALS)


def describe_refusal(error: Exception) -> str:
    """What MXNet says, in a line, of shapes or attributes that it refuses."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    said = [line for line in lines if "MXNetError: " in line] or lines[-1:]
    return PLACE.sub("", said[0].split("MXNetError: ")[-1]).rstrip(":") if said else type(error).__name__


def _handles(objects: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(objects)))(*(one.handle for one in objects))


def _strings(texts: Iterable[str]) -> Any:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * max(1, len(encoded)))(*encoded)


_SPARSE = "row_sparse"


@cache
def list_choices(op: str) -> dict[str, tuple[str, ...]]:
    """The values of each attribute that takes one of a few: words and booleans. Types that NumPy lacks and sparse storage are left out.

    >>> list_choices("SwapAxis"), list_choices("take")
    ({}, {'mode': ('clip', 'raise', 'wrap')})
    """
    choices = {name: _read_choices(declared) for name, declared in list_declarations(op)}
    return {name: values for name, values in choices.items() if values}


def _read_choices(declared: str) -> tuple[str, ...]:
    """MXNet writes `boolean, optional, default=0` and `{'avg', 'max'}, optional, default='max'`."""
    if declared.startswith("boolean,"):
        return ("False", "True")
    if not declared.startswith("{") or _SPARSE in declared:
        return ()
    words = re.findall(r"'(\w+)'|(None)", declared[: declared.index("}")])
    values = tuple(quoted or none for quoted, none in words)
    return tuple(value for value in values if value != "bfloat16" and (value in DTYPES or "float32" not in values))


def list_declarations(op: str) -> list[tuple[str, str]]:
    """Names and declared types, those of the inputs too."""
    texts, pointer = [ctypes.c_char_p() for _ in range(4)], ctypes.POINTER(ctypes.c_char_p)
    count, names, types, explanations = ctypes.c_uint(), pointer(), pointer(), pointer()
    results = (*texts[:2], count, names, types, explanations, *texts[2:])
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(find_operator(op), *map(ctypes.byref, results)))
    return [(names[n].decode(), types[n].decode()) for n in range(count.value)]
