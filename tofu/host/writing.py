"""Write files so that readers never see half a file."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from tofu.errors import FileError

SUFFIX = ".tofu-tmp"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces `path` at the end of the `with` block.

    After an error, `path` is unchanged. Raise FileError if writing fails.
    """
    target, temporary = os.fspath(path), ""
    try:
        remove_left_behind(target)
        temporary, file = _open_temporary(target)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise FileError(_explain(target, error), error.errno) from error
        raise


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file. Readers see either the old text or the complete new text."""
    with replace_atomically(path) as file:
        file.write(text.encode())


def remove_left_behind(target: str) -> None:
    """Remove Tofu's unused temporary files in the folder of `target`."""
    folder = os.path.dirname(target)
    with suppress(OSError):
        for path in (os.path.join(folder, name) for name in os.listdir(folder or ".") if name.endswith(SUFFIX)):
            if _is_unlocked(path):
                os.unlink(path)


def _open_temporary(target: str) -> tuple[str, IO[bytes]]:
    while True:
        temporary = f"{target}.{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        file = open(temporary, "xb")  # noqa: SIM115  the caller closes it
        with suppress(OSError):  # file systems without locks keep all files
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(temporary):  # another process may have removed it before it was locked
            return temporary, file
        file.close()


def _is_unlocked(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _explain(path: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    remedy = "Make room on that disk, or write to another one" if error.errno in DISK_FULL else "Write to another place"
    folder = os.path.dirname(os.path.abspath(path))
    if isinstance(error, FileNotFoundError) and not os.path.isdir(folder):
        reason, remedy = f"there is no folder {folder}", "Make it first"
    return f"{path} could not be written: {reason}. {remedy}; a file that was there before is unchanged."
