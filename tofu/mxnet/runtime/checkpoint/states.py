"""Files of optimizer states: Python's pickles, as MXNet writes them, with a seal behind. A file says which code to run, so only the
classes that such files have are let in, and a file without a seal is looked through before it is read.
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

# What MXNet's optimizers, their states and numbers of NumPy are made of.
PLAIN = {
    "builtins": {"set", "frozenset", "slice", "range", "complex", "bytearray", "object", "dict", "list", "tuple"},
    "collections": {"OrderedDict", "defaultdict", "deque"},
    "copyreg": {"_reconstructor"},
    "_codecs": {"encode"},
    "numpy": {"dtype", "ndarray", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool_"},
    "numpy.core.multiarray": {"scalar", "_reconstruct"},
    "numpy._core.multiarray": {"scalar", "_reconstruct"},
}
MXNETS = ("mxnet.ndarray.", "mxnet.optimizer.", "mxnet.lr_scheduler", "mxnet.numpy.")
MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


def save_states(path: str, content: Any, facts: Facts) -> None:
    """Write states, and what is saved with them, as MXNet's Updater does; one whole state at a time."""
    with replace_atomically(path) as raw:
        file = SealedWriter(raw)
        pickler = pickle.Pickler(file)
        pickler.fast = True  # else every array written is kept in memory until the end
        pickler.dump(content)
        file.seal(facts)


def load_states(path: str | os.PathLike[str], own: Collection[type]) -> tuple[Any, Seal | None]:
    """What is in a file of states, and its seal. `own`: classes in whose modules others of the file may be defined.

    Raises TofuError for a file that was cut short, is damaged or of another kind. Warns where it has no seal.
    """
    name = os.fspath(path)
    with open_regular(name) as file:
        seal = read_seal(file, name)
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        try:
            if seal is None:
                _look_through(file, size)
                file.seek(0)
            content = _Reader(file, own).load()
            if file.tell() != (size if seal is None else seal.end):
                raise ValueError("something else follows")
        except Exception as error:  # a damaged pickle makes any object fail in any way
            reason = str(error) or type(error).__name__
            raise TofuError(f"{name} is no file of optimizer states, or it was cut short: {reason}") from error
    if seal is None:
        warn_of_no_seal(name)
    return content, seal


def _look_through(file: IO[bytes], size: int) -> None:
    """Raise ValueError for a pickle that would have more memory taken than it has bytes: one of its numbers is damaged."""
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in MEMO_OPCODES and isinstance(argument, int) and argument > size:
            raise ValueError(f"it refers to {argument} values and has {size} bytes")
    if file.tell() != size:
        raise ValueError("something else follows")


class _Reader(pickle.Unpickler):
    """Reads a pickle of the classes above, of MXNet's optimizers, and of the modules of the classes `own`."""

    def __init__(self, file: IO[bytes], own: Collection[type]) -> None:
        super().__init__(file)
        self._modules = {kind.__module__ for kind in own}

    def find_class(self, module: str, name: str) -> Any:
        """The class of that name; ValueError for one that a file of states does not have."""
        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if (module + ".").startswith(MXNETS) or module in self._modules:
            found = super().find_class(module, name)
            if isinstance(found, (type, FunctionType)) and found.__module__ == module and "." not in name:
                return found
        raise ValueError(
            f"it asks for {module}.{name}, which no optimizer of MXNet's has. For an optimizer of your own, whose module this is, call "
            "init_optimizer(...) with it first"
        )


def optimizer_types(optimizer: mx.optimizer.Optimizer) -> set[type]:
    """The classes of an optimizer and of what is in it."""
    return {type(optimizer), *(type(value) for value in vars(optimizer).values())}
