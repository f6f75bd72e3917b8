"""Load a training step and its example arguments from a Python file."""

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
FORM = f"Write FILE.py:STEP, or FILE.py alone if the step is called {DEFAULT_STEP}."


@dataclass(frozen=True)
class StepFile:
    """A training step from a Python file, with a name such as "train.py:step"."""

    name: str
    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    path: Path


def read_step_file(text: str, arguments: str = DEFAULT_ARGUMENTS) -> StepFile:
    """Run a Python file such as "train.py:step". Return its step and example arguments.

    `arguments` is the name of a tuple in the file, or of a function that returns a tuple. Raise TofuError if the file
    has a mistake.
    """
    path, _, name = text.partition(".py:")
    file = Path(f"{path}.py" if name else text)
    if not file.is_file():
        raise TofuError(f"There is no file {file}. {FORM}")
    module = _run_file(file)
    step = _find_name(module, file, name or DEFAULT_STEP, FORM)
    step = step.step if isinstance(step, DeferredStep) else step
    if not callable(step):
        raise TofuError(f"{name or DEFAULT_STEP} in {file} is {show_with_type(step)}, and a step is a function. {FORM}")
    remedy = f"Add a function {arguments}() that returns (state, batch), arrays or jax.ShapeDtypeStructs, or name another one."
    example_args = _find_name(module, file, arguments, remedy)
    if callable(example_args):
        with locate_errors(file, f"{arguments}()"):
            example_args = example_args()
    if not isinstance(example_args, (tuple, list)):
        raise TofuError(
            f"{arguments} in {file} gives {show_with_type(example_args)}, and not the tuple of the step's arguments. {remedy}"
        )
    return StepFile(f"{file.name}:{name or DEFAULT_STEP}", step, tuple(example_args), file)


@contextmanager
def locate_errors(file: Path, action: str) -> Iterator[None]:
    """Convert errors in a user's file to TofuErrors with the line number."""
    try:
        yield
    except (TofuError, InternalError):
        raise
    except (Exception, SystemExit) as error:
        lines = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).resolve() == file.resolve()]
        location = f", line {lines[-1].lineno} ({lines[-1].line})" if lines else ""
        message = f"{action} in {file}{location} raises {type(error).__name__}: {error}"
        if isinstance(error, SystemExit):
            message += '. Move code that trains or ends the process behind `if __name__ == "__main__":`.'
        raise TofuError(message) from error


def _run_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("__step_file__", file)
    if spec is None or spec.loader is None:
        raise TofuError(f"{file} is no file of Python's. {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look the module up
    sys.path.insert(0, str(file.resolve().parent))
    with locate_errors(file, "The module"):
        spec.loader.exec_module(module)
    return module


def _find_name(module: ModuleType, file: Path, name: str, remedy: str) -> Any:
    if not hasattr(module, name):
        raise TofuError(f"{file} has no {name}{suggest(name, vars(module))}. {remedy}")
    return getattr(module, name)
