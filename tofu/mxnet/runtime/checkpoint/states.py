"""Write and read files of optimizer states: Python pickles, as in MXNet, with a seal (a checksum) at the end.

Loading a pickle can run any code, so only the classes that optimizers need are allowed.
"""

from __future__ import annotations

import os
import pickle
import pickletools
from collections.abc import Collection
from types import FunctionType
from typing import IO, Any

import mxnet as mx

from tofu.errors import TofuError
from tofu.host.writing import replace_atomically
from tofu.mxnet.runtime.checkpoint.checkpoint import warn_of_no_seal
from tofu.mxnet.runtime.checkpoint.seal import Facts, Seal, SealedWriter, open_regular, read_seal

ALLOWED_CLASSES = {
    "builtins": {"set", "frozenset", "slice", "range", "complex", "bytearray", "object", "dict", "list", "tuple"},
    "collections": {"OrderedDict", "defaultdict", "deque"},
    "copyreg": {"_reconstructor"},
    "_codecs": {"encode"},
    "numpy": {"dtype", "ndarray", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool_"},
    "numpy.core.multiarray": {"scalar", "_reconstruct"},
    "numpy._core.multiarray": {"scalar", "_reconstruct"},
}
"""For each module, the classes that pickles of MXNet's optimizers and their states contain."""
MXNET_MODULES = ("mxnet.ndarray.", "mxnet.optimizer.", "mxnet.lr_scheduler", "mxnet.numpy.")
MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


def save_states(path: str, content: Any, facts: Facts) -> None:
    """Write an optimizer and its states in MXNet's format. Arrays are written one by one to save memory."""
    with replace_atomically(path) as raw:
        file = SealedWriter(raw)
        pickler = pickle.Pickler(file)
        pickler.fast = True  # otherwise the pickler would keep every array in memory
        pickler.dump(content)
        file.seal(facts)


def load_states(path: str | os.PathLike[str], user_classes: Collection[type]) -> tuple[Any, Seal | None]:
    """Return the contents of a file of optimizer states, and its seal (the checksum at its end).

    The file may contain objects of MXNet's classes, and of all classes in the modules that define `user_classes`. Raise
    TofuError for a damaged or wrong file. Warn if the file has no seal.
    """
    name = os.fspath(path)
    with open_regular(name) as file:
        seal = read_seal(file, name)
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        try:
            if seal is None:
                _check_lengths(file, size)
                file.seek(0)
            content = _StatesReader(file, user_classes).load()
            if file.tell() != (size if seal is None else seal.end):
                raise ValueError("something else follows")
        except Exception as error:  # a damaged pickle can raise anything
            reason = str(error) or type(error).__name__
            raise TofuError(f"{name} is no file of optimizer states, or it was cut short: {reason}") from error
    if seal is None:
        warn_of_no_seal(name)
    return content, seal


def _check_lengths(file: IO[bytes], size: int) -> None:
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in MEMO_OPCODES and isinstance(argument, int) and argument > size:
            raise ValueError(f"it refers to {argument} values and has {size} bytes")
    if file.tell() != size:
        raise ValueError("something else follows")


class _StatesReader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], user_classes: Collection[type]) -> None:
        super().__init__(file)
        self._user_modules = {user_class.__module__ for user_class in user_classes}

    def find_class(self, module: str, name: str) -> Any:
        if name in ALLOWED_CLASSES.get(module, ()):
            return super().find_class(module, name)
        if (module + ".").startswith(MXNET_MODULES) or module in self._user_modules:
            value = super().find_class(module, name)
            if isinstance(value, (type, FunctionType)) and value.__module__ == module and "." not in name:
                return value
        raise ValueError(
            f"it asks for {module}.{name}, which no optimizer of MXNet has. If this is the module of your own optimizer, call "
            "init_optimizer(...) with it first"
        )


def optimizer_types(optimizer: mx.optimizer.Optimizer) -> set[type]:
    """Return the optimizer's class and the classes of its attributes."""
    return {type(optimizer), *(type(value) for value in vars(optimizer).values())}
