"""Checks of the names, shapes and types of a model's arguments. MXNet infers missing shapes and types.

An error lists all mistakes at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tofu import _mxnet
from tofu.errors import ShapeError, raise_together, suggest
from tofu.mxnet.frontend.head_gradients import name_head_gradient
from tofu.validation import show

Shapes = Mapping[str, tuple[int, ...]]

DTYPE_NAMES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
"""NumPy's names of MXNet's types, in the order of MXNet's type codes (mshadow/base.h)."""
FLOAT_CODES = (0, 1, 2)  # type codes of floating-point numbers
PARAMETER_ENDINGS = ("_weight", "_bias", "_gamma", "_beta", "_parameters")  # endings of MXNet's names of parameters
MOST_NAMES = 8  # names in an error
ATTRIBUTE_SEPARATOR = "$"
MOST_ELEMENTS = 2**47  # elements of a tensor: few enough that 64 bits can count the bytes of all workers


class ShapeInferenceError(ShapeError, mx.base.MXNetError):  # type: ignore[misc]  # MXNet is untyped
    """MXNet refuses the shapes or types. Scripts can also catch this error as an MXNetError."""


def _find_type_code(dtype: Any) -> int:
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = show(dtype)
    if name not in DTYPE_NAMES:
        raise ShapeError(f"MXNet has no type {name}; it has {', '.join(DTYPE_NAMES)}.")
    return DTYPE_NAMES.index(name)


def check_names(symbol: Any, shapes: Shapes, differentiated: Collection[str] = ()) -> None:
    """Raise ShapeError for names that are duplicate or unknown, or that MXNet cannot parse."""
    arguments = symbol.list_arguments() + symbol.list_auxiliary_states()
    nodes = [node["name"] for node in _mxnet.nodes(symbol.handle.value)]
    raise_together(
        ShapeError,
        f"MXNet writes {ATTRIBUTE_SEPARATOR!r} between a name and its attributes, so names must not contain it. Rename:",
        [show(name) for name in dict.fromkeys([*arguments, *nodes]) if ATTRIBUTE_SEPARATOR in name],
    )
    duplicates = [name for name, count in Counter(arguments).items() if count > 1]
    raise_together(
        ShapeError,
        "Several variables of the model have the same name, so their values cannot be told apart. Rename all but one of:",
        duplicates,
    )
    unknown = dict.fromkeys(name for name in (*shapes, *differentiated) if name not in arguments)
    problems = [f"{name}{suggest(name, arguments)}" for name in unknown]
    raise_together(ShapeError, f"The model has no such inputs (it has {list_inputs(symbol)}):", problems)


def list_inputs(symbol: Any) -> str:
    """Return the names of the model's inputs as text. Parameters such as "fc_weight" are left out."""
    names = symbol.list_arguments()
    inputs = [name for name in names if not name.endswith(PARAMETER_ENDINGS)] or names
    return (", ".join(inputs[:MOST_NAMES]) or "none") + (", ..." if inputs[MOST_NAMES:] else "")


def check_shapes(shapes: Shapes) -> None:
    """Raise ShapeError for shapes that are invalid or have more than `MOST_ELEMENTS` elements."""
    wrong = [
        f"{name}={show(shape)}{_advise_shape(name, shape)}" for name, shape in shapes.items() if not _is_shape(shape)
    ]
    raise_together(
        ShapeError, "A shape is a tuple of positive whole numbers, for example data=(64, 3, 224, 224). Given:", wrong
    )
    too_large = [f"{name}={show(shape)}" for name, shape in shapes.items() if prod(map(int, shape)) > MOST_ELEMENTS]
    raise_together(ShapeError, f"A tensor has at most {MOST_ELEMENTS:,} elements. Make these smaller:", too_large)


def _advise_shape(name: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f" (pass its shape: {name}={shape})" if isinstance(shape, tuple) and len(shape) > 1 else ""


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list, np.ndarray)) and all(
        isinstance(extent, (int, np.integer)) and not isinstance(extent, bool) and extent > 0 for extent in shape
    )


def list_declared_types(symbol: Any, names: Collection[str]) -> dict[str, int]:
    """Return the type codes that the model declares for variables in `names`."""
    declared = {name: attributes.get("__dtype__", "-1") for name, attributes in symbol.attr_dict().items()}
    flags = {str(code): code for code in range(-1, len(DTYPE_NAMES))}
    wrong = [f"{name}: {show(text)}" for name, text in declared.items() if name in names and text not in flags]
    raise_together(ShapeError, f"A variable's __dtype__ is a number from 0 to {len(DTYPE_NAMES) - 1}. Given:", wrong)
    return {name: flags[text] for name, text in declared.items() if name in names and text != "-1"}


def infer_arguments(
    symbol: Any, shapes: Shapes, dtypes: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return {name: shape} and {name: type code} for all arguments, states and output gradients."""
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    codes = list_declared_types(symbol, set(names))
    codes |= {name: _find_type_code(dtype) for name, dtype in dtypes.items() if name in names}
    # In MXNet, an input without a type is float32, unless its type follows from declared types.
    float32_inputs = dict.fromkeys(shapes, 0)
    try:
        inferred_shapes, inferred_types = _infer(symbol, shapes, codes or float32_inputs)
    except ShapeError:  # some operators, such as RNN, refuse inputs of unknown type
        try:
            inferred_shapes, inferred_types = _infer(symbol, shapes, float32_inputs | codes)
        except ShapeError:  # an input without a shape has no type either; it is named below
            inferred_shapes, inferred_types = _infer(symbol, shapes, dict.fromkeys(names, 0) | codes)
    if any(inferred_types.get(name, -1) < 0 for name in names):
        codes = {name: max(inferred_types.get(name, -1), 0) for name in names}
        inferred_shapes, inferred_types = _infer(symbol, shapes, codes)
    problems = []
    for name in names:
        shape = inferred_shapes.get(name)
        if shape is None or any(extent < 1 for extent in shape):
            problems.append(f"{name}: {'nothing is known' if shape is None else f'only {shape} is known'}")
    more = [f"... and {len(problems) - MOST_NAMES} more, which may follow from these"] if problems[MOST_NAMES:] else []
    headline = f"Shapes cannot be inferred from those given ({_list_shapes(shapes)}). Give a shape for:"
    raise_together(ShapeError, headline, [*problems[:MOST_NAMES], *more])
    return {name: shape for name, shape in inferred_shapes.items() if shape is not None}, inferred_types


def infer_entries(
    symbol: Any, shapes: Shapes, codes: Mapping[str, int]
) -> tuple[list[tuple[int, ...] | None], list[int]]:
    """Return the shapes and the type codes of all nodes' outputs, as two lists.

    A node's outputs start at position `node["entry"]`.
    """
    variables = set(symbol.list_inputs())
    return _mxnet.infer(
        symbol.handle.value,
        {name: shape for name, shape in shapes.items() if name in variables},
        {name: code for name, code in codes.items() if name in variables},
    )


def _infer(
    symbol: Any, shapes: Shapes, codes: Mapping[str, int]
) -> tuple[dict[str, tuple[int, ...] | None], dict[str, int]]:
    handle = symbol.handle.value
    try:
        entry_shapes, entry_types = _mxnet.infer(handle, {n: tuple(s) for n, s in shapes.items()}, dict(codes))
    except RuntimeError as error:
        problem = f"The shapes given ({_list_shapes(shapes)}) do not fit the model."
        if _shapes_fit(symbol, shapes):
            types = ", ".join(f"{name}: {DTYPE_NAMES[codes[name]]}" for name in shapes if codes.get(name, -1) >= 0)
            problem = f"The shapes fit the model, but the types do not ({types or 'none is declared'}). {_advise_types(shapes, codes)}"
        raise ShapeInferenceError(f"{problem} MXNet says: {error}") from error
    nodes = _mxnet.nodes(handle)
    entry_by_name = {node["name"]: node["entry"] for node in nodes if node["op"] == "null"}
    for output, (node, index) in enumerate(_mxnet.outputs(handle)):
        entry_by_name[name_head_gradient(output)] = nodes[node]["entry"] + index
    inferred_shapes = {name: entry_shapes[entry] for name, entry in entry_by_name.items()}
    return (
        {name: None if shape is None else tuple(shape) for name, shape in inferred_shapes.items()},
        {name: entry_types[entry] for name, entry in entry_by_name.items()},
    )


def _advise_types(shapes: Shapes, codes: Mapping[str, int]) -> str:
    parameter_codes = Counter(code for name, code in codes.items() if name not in shapes and code in FLOAT_CODES)
    common_code = next((code for code, _ in parameter_codes.most_common(1)), None)
    other_codes = {codes[name] for name in shapes if codes.get(name) in FLOAT_CODES} - {common_code}
    if common_code is None or not other_codes:
        return (
            "The default is float32. Declare another type with mx.sym.Variable('data', dtype='float64'), or with type_dict= when the "
            "model is bound. A Gluon block takes inputs of its parameters' type, x.astype('float32'), or is converted by "
            "block.cast('float64')."
        )
    of_parameters, of_inputs = DTYPE_NAMES[common_code], DTYPE_NAMES[min(other_codes)]
    return (
        f"The parameters have the type {of_parameters}, and the inputs {of_inputs}. Convert the inputs with x.astype('{of_parameters}'), "
        f"or convert a Gluon block with block.cast('{of_inputs}')."
    )


def _shapes_fit(symbol: Any, shapes: Shapes) -> bool:
    try:
        symbol.infer_shape_partial(**{name: tuple(shape) for name, shape in shapes.items()})
    except (mx.base.MXNetError, ValueError):
        return False
    return True


def _list_shapes(shapes: Shapes) -> str:
    return ", ".join(f"{name}: {tuple(shape)}" for name, shape in shapes.items()) or "none"
