"""What a file of arrays carries after its arrays, where MXNet's readers do not look: a digest of all bytes, and which step it is of.

    content | facts, as JSON | BLAKE2b of both, 32 bytes | length of the facts, 8 bytes | MAGIC

So a bit that flipped, and parameters and states of different steps, are recognised before anything is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any

from tofu.errors import TofuError
from tofu.validation import parse_json, read_integer, read_string

MAGIC = b"tofu-checkpoint1"
DIGEST_BYTES = 32
TAIL = struct.Struct(f"<{DIGEST_BYTES}sQ{len(MAGIC)}s")
MOST_FACTS = 4096  # bytes
CHUNK = 2**20
REMEDY = "Take a copy of it that is whole, or another epoch."


@dataclass(frozen=True)
class Facts:
    """What a file says of itself.

    `steps`: how many updates the optimizer had made; None where there was none. `parameters`: of a file of states, the digest of the
    file of parameters that it was saved with.
    """

    steps: int | None = None
    parameters: str | None = None


@dataclass(frozen=True)
class Seal:
    """The facts of a file whose digest is right, the digest itself, and where the content ends."""

    facts: Facts
    digest: str
    end: int


class SealedWriter:
    """A file that remembers the digest of all that is written into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, data: Any) -> int:
        """Write bytes, or anything with a buffer of them."""
        self._hash.update(data)
        return self._file.write(data)

    def seal(self, facts: Facts) -> str:
        """Write what comes after the content; the digest."""
        text = json.dumps(asdict(facts), sort_keys=True).encode()
        self.write(text)
        self._file.write(TAIL.pack(self._hash.digest(), len(text), MAGIC))
        return self._hash.hexdigest()


def read_seal(file: IO[bytes], path: str) -> Seal | None:
    """The seal of a file, after all of it has been read and compared; None where it has none. Raises TofuError where it is another
    file than the one that was sealed.
    """
    size = os.fstat(file.fileno()).st_size
    if size < TAIL.size:
        return None
    file.seek(size - TAIL.size)
    digest, length, magic = TAIL.unpack(file.read(TAIL.size))
    if magic != MAGIC:
        return None
    end = size - TAIL.size - length
    if length > MOST_FACTS or end < 0 or _hash(file, end + length) != digest:
        raise TofuError(f"{path} is damaged: its bytes are not those that were written. {REMEDY}")
    file.seek(end)
    try:
        value = parse_json(file.read(length).decode())
        steps, parameters = value.get("steps"), value.get("parameters")
        facts = Facts(
            None if steps is None else read_integer(steps, "steps"),
            None if parameters is None else read_string(parameters, "parameters"),
        )
    except (ValueError, AttributeError) as error:
        raise TofuError(f"{path} has a seal that this Tofu does not read: {error}. {REMEDY}") from error
    return Seal(facts, digest.hex(), end)


def _hash(file: IO[bytes], length: int) -> bytes:
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    while length > 0 and (chunk := file.read(min(CHUNK, length))):
        found.update(chunk)
        length -= len(chunk)
    return found.digest()


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A regular file, open for reading. Raises TofuError that names it where it cannot be read."""
    file = open_regular(path)
    with file:
        yield file


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A regular file, open for reading; a pipe is none, and would be waited for."""
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
    """Raise TofuError where a file of states was not saved with a file of parameters, as far as they say."""
    if parameters is None or states is None:
        return
    ours, theirs = parameters.facts.steps, states.facts.steps
    differ = states.facts.parameters not in (None, parameters.digest)
    if not differ and (ours is None or theirs is None or ours == theirs):
        return
    raise TofuError(
        f"These are files of two checkpoints: {parameter_path} is {_step(ours)}, {state_path} {_step(theirs)}"
        f"{' of another save' if ours == theirs else ''}. The process may have ended, or the disk been full, between the two. Take "
        "another epoch, or leave the states out: load_optimizer_states=False."
    )


def _step(steps: int | None) -> str:
    return "of an unknown step" if steps is None else f"of step {steps}"
