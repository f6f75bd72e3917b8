"""Errors that Tofu raises on purpose.

A user can correct a `TofuError` by a change of the model, the shapes, the plan or the call. The message names the
problem, the value seen, the value expected, and what to do. An `InternalError` is a mistake in Tofu.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class TofuError(ValueError):
    """Base class of all errors that the user can correct."""


class DescriptionError(TofuError):
    """An operator's description (its formula) is malformed. The message names file and line."""


class NotAffineError(DescriptionError):
    """A description uses an index such as `t[i * j]` or `t[i // 2]`. Only sums such as `t[2 * i + j]` are allowed (section 4.2)."""


class UndescribedOperatorError(TofuError):
    """An operator of the model has no description (formula), so Tofu cannot split it."""


class ShapeError(TofuError):
    """Input shapes are missing, contradict each other, or have unknown names."""


class DeviceError(TofuError):
    """The requested devices do not exist, or their number is not the number of workers."""


class PlanError(TofuError):
    """A plan, a hint or an option cannot be used for this model."""


class InfeasibleError(TofuError):
    """No plan exists. The model cannot be split over so many workers, or does not fit into the memory limit."""


class UnsupportedError(TofuError):
    """The model uses a feature of the framework that Tofu cannot partition. The message suggests an alternative."""


class ExecutionError(TofuError):
    """An operator failed while the model ran. The message lists the results that were lost."""


class OutOfMemoryError(TofuError):
    """The model needs more memory than the devices or the host have."""


class FileError(TofuError, OSError):
    """A file cannot be written. Its previous content is unchanged. This is also an OSError, with `errno`."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class NotReadyError(TofuError, AssertionError):
    """Another function must be called first. This is also an AssertionError, as in MXNet."""


class MissingParametersError(TofuError, RuntimeError):
    """Parameters of the model were not passed. This is also a RuntimeError, as in MXNet."""


class ArgumentTypeError(ShapeError, TypeError):
    """An argument has the wrong type, or is unknown. This is also a TypeError, as in MXNet."""


class InternalError(RuntimeError):
    """Tofu found an error in its own results. Do not trust the numbers of the training step."""

    def __init__(self, message: str) -> None:
        report = "Please report it with the model and the plan (made.plan.to_json())."
        super().__init__(f"{message}\nThis is a defect of Tofu, not of your model. {report}")


def raise_together(error: type[TofuError], headline: str, problems: Iterable[str]) -> None:
    """Raise `error` with a headline and a list of `problems`. Do nothing if there are no problems."""
    lines = list(problems)
    if lines:
        raise error("\n".join([headline, *(f"  - {line}" for line in lines)]))


def find_similar_names(name: str, known: Collection[str]) -> list[str]:
    """Return up to three names in `known` that are similar to `name`.

    For "weight", names such as "folder/weight" come first, then names with similar spelling.
    """
    names_in_folders = [known_name for known_name in known if known_name.endswith(f"/{name}")]
    near = dict.fromkeys([*names_in_folders, *get_close_matches(name, known)])
    return list(near or [known_name for known_name in known if name in known_name])[:3]


def on_one_line(error: object) -> str:
    """Return the message of an error, with line breaks replaced by spaces."""
    return " ".join(str(error).split())


def suggest(name: str, known: Collection[str], ending: str = "") -> str:
    """Return a question such as " (did you mean weight?)", or "" if no `known` name is similar."""
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}{ending}?)" if near else ""


def suggest_several(name: str, known: Collection[str]) -> str:
    """Return the end of a sentence that suggests similar names.

    It is "; did you mean weight, bias?", or "." if no `known` name is similar.
    """
    near = get_close_matches(name, known)
    return f"; did you mean {', '.join(near)}?" if near else "."


def explain_call(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that adds `example` to errors about wrong arguments of a function."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                parameters.bind(*args, **kwargs)
            except TypeError as error:
                unknown = [name for name in kwargs if name not in parameters.parameters]
                near = suggest(unknown[0], parameters.parameters) if unknown else ""
                raise ArgumentTypeError(f"This call {_reword(str(error))}{near}. Write {example}.") from None
            return function(*args, **kwargs)

        return call

    return decorate


def _reword(problem: str) -> str:
    problem = problem.replace("got an unexpected keyword argument", "has no argument")
    if "missing" in problem:
        return problem.replace("missing a required argument:", "lacks")
    return problem.replace("too", "has too")


def list_keyword_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's keyword-only arguments."""
    parameters = signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY)
