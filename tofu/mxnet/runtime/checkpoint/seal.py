"""The seal at the end of a checkpoint file: a checksum, and facts such as the training step.

    content | facts, as JSON | BLAKE2b of both, 32 bytes | length of the facts, 8 bytes | MAGIC

MXNet reads only the content. Tofu checks the seal before it loads a file. It refuses damaged files, and parameters of
another step than the optimizer states.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from dataclasses import asdict, dataclass
from typing import IO, Any

from tofu.errors import TofuError
from tofu.validation import parse_json, read_integer, read_string

MAGIC = b"tofu-checkpoint1"
DIGEST_BYTES = 32
TAIL = struct.Struct(f"<{DIGEST_BYTES}sQ{len(MAGIC)}s")
MOST_FACTS_BYTES = 4096
CHUNK_BYTES = 2**20
REMEDY = "Use an undamaged copy, or another epoch."


@dataclass(frozen=True)
class Facts:
    """Facts that the seal of a checkpoint file stores.

    Attributes
    ----------
    steps
        The optimizer's number of updates, or None without an optimizer.
    parameters
        Only in a file of optimizer states: the digest (checksum) of the file of parameters.
    """

    steps: int | None = None
    parameters: str | None = None


@dataclass(frozen=True)
class Seal:
    """The seal of a file: facts and a digest (checksum). The seal starts at byte `end`."""

    facts: Facts
    digest: str
    end: int


class SealedWriter:
    """A file for writing that computes a digest (checksum) of all bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, data: Any) -> int:
        """Write bytes or an array."""
        self._hash.update(data)
        return self._file.write(data)

    def seal(self, facts: Facts) -> str:
        """Write `facts` and the digest (checksum) at the end of the file. Return the digest."""
        text = json.dumps(asdict(facts), sort_keys=True).encode()
        self.write(text)
        self._file.write(TAIL.pack(self._hash.digest(), len(text), MAGIC))
        return self._hash.hexdigest()


def read_seal(file: IO[bytes], path: str) -> Seal | None:
    """Check a file against its seal, and return the seal. Return None for a file without a seal.

    Raise TofuError if the file is damaged.
    """
    size = os.fstat(file.fileno()).st_size
    if size < TAIL.size:
        return None
    file.seek(size - TAIL.size)
    digest, length, magic = TAIL.unpack(file.read(TAIL.size))
    if magic != MAGIC:
        return None
    end = size - TAIL.size - length
    if length > MOST_FACTS_BYTES or end < 0 or _compute_digest(file, end + length) != digest:
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


def _compute_digest(file: IO[bytes], length: int) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    while length > 0 and (chunk := file.read(min(CHUNK_BYTES, length))):
        digest.update(chunk)
        length -= len(chunk)
    return digest.digest()


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading. Raise TofuError if this fails, or if the file is a pipe."""
    name = os.fspath(path)
    try:
        if stat.S_ISREG(os.stat(name).st_mode):
            return open(name, "rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TofuError(f"{name} cannot be read: {reason}.") from error
    raise TofuError(f"{name} cannot be read: it is not a regular file.")


def check_belongs(parameters: Seal | None, states: Seal | None, parameter_path: str, state_path: str) -> None:
    """Raise TofuError if parameters and optimizer states are from different checkpoints."""
    if parameters is None or states is None:
        return
    parameter_steps, state_steps = parameters.facts.steps, states.facts.steps
    is_of_another_save = states.facts.parameters not in (None, parameters.digest)
    if not is_of_another_save and (parameter_steps is None or state_steps is None or parameter_steps == state_steps):
        return
    raise TofuError(
        f"These are files of two checkpoints: {parameter_path} is {_describe_step(parameter_steps)}, {state_path} "
        f"{_describe_step(state_steps)}{' of another save' if parameter_steps == state_steps else ''}. The process may have ended, or the "
        "disk been full, between the two. Use another epoch, or load without the states: load_optimizer_states=False."
    )


def _describe_step(steps: int | None) -> str:
    return "of an unknown step" if steps is None else f"of step {steps}"
