"""A copy of one commit under `build/mutations`, in which bugs are planted, built and tested: never the user's own files."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.mutation.mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
CORE_TESTS = "build/core-tests"
BUILD_SECONDS = 1800
PYTEST = ("-m", "pytest", "-x", "-q", "--no-header", "--tb=short", "-rfE", "-p", "no:cacheprovider")
FAILED, NOTHING_FAILED = 1, 0  # of pytest; what is above means that there was nothing to run, or no way to


class BrokenError(Exception):
    """Something that is not the tests' doing: it does not apply, compile or import."""


@dataclass(frozen=True)
class Verdict:
    """What the tests said: "passed", "failed" or "timeout", the first test that failed, and how long it took."""

    outcome: str
    test: str
    seconds: float


class Tree:
    """One copy, reused from campaign to campaign so that only what changed is compiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._has_stale_modules = True
        self._process: subprocess.Popen[str] | None = None
        self._environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # a file that is changed and changed back within a second looks the same
            "CXX": "g++",
        }
        wrappers = Path("/usr/lib/ccache")
        if wrappers.is_dir():
            self._environment["PATH"] = f"{wrappers}{os.pathsep}{os.environ['PATH']}"

    def take(self) -> bool:
        """Whether nobody else uses this tree; it is taken until the program ends."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.folder.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            return False
        return True

    def check_out(self, commit: str) -> None:
        """The files of a commit of the user's repository, whatever was planted here before."""
        if not (self.folder / ".git").exists():
            _git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(self.folder))
        _git(self.folder, "fetch", "-q", str(ROOT), commit)
        _git(self.folder, "checkout", "-q", "--force", "--detach", commit)
        if not (self.folder / ".venv").exists():
            (self.folder / ".venv").symlink_to(ROOT / ".venv")
        self._has_stale_modules = True

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The tree with one bug in it. Raises BrokenError where it does not apply."""
        path = self.folder / mutant.file
        if not path.is_file():
            raise BrokenError(f"there is no file {mutant.file}")
        original = path.read_text()
        try:
            changed = mutant.plant(original)
        except ValueError as error:
            raise BrokenError(str(error)) from error
        path.write_text(changed)
        self._has_stale_modules |= mutant.is_native
        try:
            yield
        finally:
            path.write_text(original)
            self._has_stale_modules |= mutant.is_native

    def run(self, tests: Sequence[str], limit: float) -> Verdict:
        """Run tests up to the first failure, `limit` seconds at most. Raises BrokenError where they cannot be built or collected."""
        begin, test = time.monotonic(), ""
        for names in _group(tests):
            is_native = names[0].endswith(".cc")
            if is_native:
                self._build_core_tests(names)
            else:
                self._build_modules()
            status, output = self._execute(self._command(names, is_native, limit), limit)
            test = _first_failure(output, names)
            if status is None:
                return Verdict("timeout", test, time.monotonic() - begin)
            if not is_native and status > FAILED:
                raise BrokenError(_tail(output))
            if status != NOTHING_FAILED:
                return Verdict("failed", test if status > 0 else f"{test} (signal {-status})", time.monotonic() - begin)
        return Verdict("passed", "", time.monotonic() - begin)

    def _command(self, names: Sequence[str], is_native: bool, limit: float) -> list[str]:
        if not is_native:
            shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)  # what failed under another bug
            return [".venv/bin/python", *PYTEST, *(word for name in names for word in shlex.split(name))]
        wanted = "|".join(Path(name).stem for name in names)
        options = ["--output-on-failure", "--stop-on-failure", "--timeout", f"{limit:.0f}", "--no-tests=error"]
        return [".venv/bin/ctest", "--test-dir", CORE_TESTS, "-R", f"^({wanted})$", *options]

    def _build_modules(self) -> None:
        if self._has_stale_modules:
            self._compile([".venv/bin/python", "setup.py"])
            self._has_stale_modules = False

    def _build_core_tests(self, names: Sequence[str]) -> None:
        cmake = [".venv/bin/cmake", "-S", ".", "-B", CORE_TESTS, "-G", "Ninja", "--log-level=WARNING"]
        ninja = f"-DCMAKE_MAKE_PROGRAM={self.folder}/.venv/bin/ninja"
        python = f"-DPython_EXECUTABLE={self.folder}/.venv/bin/python"
        self._compile([*cmake, ninja, python, "-DTOFU_ONLY_CORE_TESTS=ON", "-DTOFU_SANITIZE=OFF"])
        self._compile([".venv/bin/cmake", "--build", CORE_TESTS, "--target", *(Path(name).stem for name in names)])

    def _compile(self, command: list[str]) -> None:
        status, output = self._execute(command, BUILD_SECONDS)
        if status != 0:
            errors = [line for line in output.splitlines() if "error:" in line]
            raise BrokenError("does not compile: " + (errors[0] if errors else _tail(output)))

    def _execute(self, command: list[str], limit: float) -> tuple[int | None, str]:
        """Status and output of a program; None where it took longer than its limit, and was ended with all that it started."""
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        where = {"cwd": self.folder, "env": self._environment, "start_new_session": True}
        process = self._process = subprocess.Popen(command, text=True, errors="replace", **pipe, **where)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.stop()
            return None, process.communicate()[0]
        return process.returncode, output

    def stop(self) -> None:
        """End what is running, with all that it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def _group(tests: Sequence[str]) -> list[list[str]]:
    """What one program runs: C++ tests, pytest's, and alone what pytest is to choose by words (-k)."""
    groups = groupby(enumerate(tests), lambda one: (one[1].endswith(".cc"), one[0] if " -k " in one[1] else -1))
    return [[name for _, name in group] for _, group in groups]


def resolve_commit(name: str) -> str:
    """A commit of the user's repository, in full."""
    return _git(ROOT, "rev-parse", "--verify", f"{name}^{{commit}}").strip()


def has_changed(old: str, new: str, paths: Sequence[str]) -> bool:
    """Whether any of these files differs between two commits, or one of the commits is not known."""
    command = ["git", "-C", str(ROOT), "diff", "--quiet", old, new, "--", *paths]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode != 0


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _first_failure(output: str, names: Sequence[str]) -> str:
    """The first test that failed, as pytest and ctest name it; else all that were running."""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE) or re.search(
        r"Test\s+#\d+: (\w+) .*(?:Failed|Exception|Timeout)", output
    )
    return found[1] if found else ", ".join(names)


def _tail(output: str) -> str:
    return " | ".join(line for line in output.splitlines()[-6:] if line.strip())
