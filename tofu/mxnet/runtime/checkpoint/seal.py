"""Seal at the end of a file of arrays, where MXNet does not read: a digest of all bytes, and the training step.

    content | facts, as JSON | BLAKE2b of both, 32 bytes | length of the facts, 8 bytes | MAGIC

Before anything is loaded, the seal reveals damage, and parameters and optimizer states of different steps.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import asdict, dataclass
from typing import IO, Any

from tofu.errors import TofuError
from tofu.validation import parse_json, read_integer, read_string

MAGIC = b"tofu-checkpoint1"
DIGEST_BYTES = 32
TAIL = struct.Struct(f"<{DIGEST_BYTES}sQ{len(MAGIC)}s")
MOST_FACTS = 4096  # bytes
CHUNK = 2**20
REMEDY = "Use an undamaged copy, or another epoch."


@dataclass(frozen=True)
class Facts:
    """Facts about a file.

    `steps` is the number of updates that the optimizer had made, or None. In a file of optimizer states, `parameters`
    is the digest of the file of parameters that was saved with it.
    """

    steps: int | None = None
    parameters: str | None = None


@dataclass(frozen=True)
class Seal:
    """Seal of an undamaged file: its facts, its digest, and the position where its content ends."""

    facts: Facts
    digest: str
    end: int


class SealedWriter:
    """File that computes a digest of everything that is written into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, data: Any) -> int:
        """Write bytes, or an object with a buffer."""
        self._hash.update(data)
        return self._file.write(data)

    def seal(self, facts: Facts) -> str:
        """Write the seal and return the digest."""
        text = json.dumps(asdict(facts), sort_keys=True).encode()
        self.write(text)
        self._file.write(TAIL.pack(self._hash.digest(), len(text), MAGIC))
        return self._hash.hexdigest()


def read_seal(file: IO[bytes], path: str) -> Seal | None:
    """Read the whole file and return its seal, or None without one. Raise TofuError if the digest differs."""
    size = os.fstat(file.fileno()).st_size
    if size < TAIL.size:
        return None
    file.seek(size - TAIL.size)
    digest, length, magic = TAIL.unpack(file.read(TAIL.size))
    if magic != MAGIC:
        return None
    end = size - TAIL.size - length
    if length > MOST_FACTS or end < 0 or _hash(file, end + length) != digest:
        raise TofuError(f"{path} is damaged: its checksum does not match. {REMEDY}")
    file.seek(end)
    try:
        value = parse_json(file.read(length).decode())
        steps, parameters = value.get("steps"), value.get("parameters")
        facts = Facts(
            None if steps is None else read_integer(steps, "steps"),
            None if parameters is None else read_string(parameters, "parameters"),
        )
    except (ValueError, AttributeError) as error:
        raise TofuError(f"{path} has a seal that this version of Tofu cannot read: {error}. {REMEDY}") from error
    return Seal(facts, digest.hex(), end)


def _hash(file: IO[bytes], length: int) -> bytes:
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    while length > 0 and (chunk := file.read(min(CHUNK, length))):
        found.update(chunk)
        length -= len(chunk)
    return found.digest()


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading. Raise TofuError if it cannot be read; opening a pipe would block."""
    name = os.fspath(path)
    try:
        if not os.path.isfile(name):
            os.stat(name)
            raise TofuError(f"{name} cannot be read: it is not a regular file.")
        return open(name, "rb")
    except (OSError, ValueError) as error:
        if isinstance(error, TofuError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise TofuError(f"{name} cannot be read: {reason}.") from error


def check_belongs(parameters: Seal | None, states: Seal | None, parameter_path: str, state_path: str) -> None:
    """Raise TofuError if the seals show that a file of states was not saved with a file of parameters."""
    if parameters is None or states is None:
        return
    ours, theirs = parameters.facts.steps, states.facts.steps
    differ = states.facts.parameters not in (None, parameters.digest)
    if not differ and (ours is None or theirs is None or ours == theirs):
        return
    raise TofuError(
        f"These are files of two checkpoints: {parameter_path} is {_step(ours)}, {state_path} {_step(theirs)}"
        f"{' of another save' if ours == theirs else ''}. The process may have ended, or the disk been full, between the two. Use "
        "another epoch, or load without the states: load_optimizer_states=False."
    )


def _step(steps: int | None) -> str:
    return "of an unknown step" if steps is None else f"of step {steps}"
