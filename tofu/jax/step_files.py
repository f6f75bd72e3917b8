"""A step in a file of Python's: `FILE.py:STEP`, with what gives its example arguments beside it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from tofu.errors import InternalError, TofuError, suggest
from tofu.jax.partition import DeferredStep
from tofu.validation import show_with_type

DEFAULT_STEP = "step"
DEFAULT_ARGUMENTS = "example_args"
FORM = f"Write FILE.py:STEP, or FILE.py alone where the step is called {DEFAULT_STEP}."


@dataclass(frozen=True)
class StepFile:
    """A step, its name, and arguments for it, or their shapes. `path`: of the file."""

    name: str
    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    path: Path


def read_step_file(text: str, arguments: str = DEFAULT_ARGUMENTS) -> StepFile:
    """The step `FILE.py:STEP`. `arguments` names a tuple in the file, or a function that returns one; the file is run.

    Raises TofuError where one of them is not there, or is something else.
    """
    path, _, name = text.partition(".py:")
    file = Path(f"{path}.py" if name else text)
    if not file.is_file():
        raise TofuError(f"There is no file {file}. {FORM}")
    module = _run(file)
    step = _find(module, file, name or DEFAULT_STEP, FORM)
    step = step.step if isinstance(step, DeferredStep) else step
    if not callable(step):
        raise TofuError(f"{name or DEFAULT_STEP} in {file} is {show_with_type(step)}, and a step is a function. {FORM}")
    remedy = f"Add a function {arguments}() that returns (state, batch), arrays or jax.ShapeDtypeStructs, or name another one."
    given = _find(module, file, arguments, remedy)
    if callable(given):
        with locate_errors(file, f"{arguments}()"):
            given = given()
    if not isinstance(given, (tuple, list)):
        raise TofuError(
            f"{arguments} in {file} gives {show_with_type(given)}, and not the tuple of the step's arguments. {remedy}"
        )
    return StepFile(f"{file.name}:{name or DEFAULT_STEP}", step, tuple(given), file)


@contextmanager
def locate_errors(file: Path, what: str) -> Iterator[None]:
    """Raise what `what` in a user's file raises as one TofuError, which names the last line of that file on the way; frames of others say
    nothing to the user.
    """
    try:
        yield
    except (TofuError, InternalError):
        raise
    except (Exception, SystemExit) as error:
        lines = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).resolve() == file.resolve()]
        where = f", line {lines[-1].lineno} ({lines[-1].line})" if lines else ""
        raised = f"{what} in {file}{where} raises {type(error).__name__}: {error}"
        if isinstance(error, SystemExit):
            raised += '. What ends the process, or trains, stands behind `if __name__ == "__main__":`, so that the file can be read.'
        raise TofuError(raised) from error


def _run(file: Path) -> ModuleType:
    """The module of a file, which may import its neighbours, as `python FILE` lets it."""
    spec = importlib.util.spec_from_file_location("__step_file__", file)
    if spec is None or spec.loader is None:
        raise TofuError(f"{file} is no file of Python's. {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # which dataclasses look for
    sys.path.insert(0, str(file.resolve().parent))
    with locate_errors(file, "What is run"):
        spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, file: Path, name: str, remedy: str) -> Any:
    if not hasattr(module, name):
        raise TofuError(f"{file} has no {name}{suggest(name, vars(module))}. {remedy}")
    return getattr(module, name)
