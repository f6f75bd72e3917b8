"""What MXNet itself declares about the attributes of an operator: the ranges that verification draws from."""

from __future__ import annotations

import ctypes
import re
from functools import cache

from mxnet.base import _LIB, check_call

from tofu.mxnet.verify.kernels import DTYPES, find_operator

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
