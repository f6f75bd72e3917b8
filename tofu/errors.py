"""Errors that Tofu raises on purpose.

A `TofuError` is for the user, who has to change the model, the shapes, the plan or the call. Its message names the
problem, the value seen, the value expected, and what to do. It is also a `ValueError`. An `InternalError` is a defect
of Tofu; its message asks the user to report it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class TofuError(ValueError):
    """Base of all errors that the user can correct."""


class DescriptionError(TofuError):
    """A description of an operator in TDL is malformed. The message has the file and the line."""


class NotAffineError(DescriptionError):
    """A description indexes a tensor by an expression that is not affine in its index variables (section 4.2)."""


class UndescribedOperatorError(TofuError):
    """The model has an operator that Tofu has no description of."""


class ShapeError(TofuError):
    """Input shapes are missing, contradict each other, or have unknown names."""


class DeviceError(TofuError):
    """The requested devices do not exist, or there are more or fewer of them than workers."""


class PlanError(TofuError):
    """A plan, a hint or an option of planning cannot be applied to this graph."""


class InfeasibleError(TofuError):
    """No plan exists, because the model cannot be split over so many workers, or does not fit into the memory limit."""


class UnsupportedError(TofuError):
    """The model uses a feature of the framework that Tofu cannot partition. The message has an alternative."""


class ExecutionError(TofuError):
    """An operator failed while the model ran. The message lists the results that are lost."""


class OutOfMemoryError(TofuError):
    """The model needs more memory than the devices or the host have."""


class FileError(TofuError, OSError):
    """A file cannot be written. Its previous content is unchanged. This is also an OSError, and sets `errno`."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class NotReadyError(TofuError, AssertionError):
    """Another function has to be called first. MXNet raises an AssertionError in these cases."""


class MissingParametersError(TofuError, RuntimeError):
    """Parameters of the model were not passed. MXNet raises a RuntimeError in these cases."""


class ArgumentTypeError(ShapeError, TypeError):
    """An argument has the wrong type, or is unknown. MXNet raises a TypeError in these cases."""


class InternalError(RuntimeError):
    """A check of Tofu's own work failed. Do not trust the numbers of the step."""

    def __init__(self, message: str) -> None:
        report = "Please report it with the model and the plan (made.plan.to_json())."
        super().__init__(f"{message}\nThis is a defect of Tofu, not of your model. {report}")


def raise_together(error: type[TofuError], headline: str, problems: Iterable[str]) -> None:
    """Raise `error` with a headline and one line for each problem. Does nothing without problems."""
    lines = list(problems)
    if lines:
        raise error("\n".join([headline, *(f"  - {line}" for line in lines)]))


def find_similar_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return up to `count` known names that the user probably meant by `name`.

    These are names of similar spelling or, if there are none, names that contain `name`. A known name that ends with
    "/" and `name` comes first.
    """
    known = list(known)
    names_in_folders = [known_name for known_name in known if known_name.endswith(f"/{name}")]
    near = list(dict.fromkeys([*names_in_folders, *get_close_matches(name, known, n=count)]))
    return (near or [known_name for known_name in known if name in known_name])[:count]


def on_one_line(error: object) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())


def suggest(name: str, known: Iterable[str], ending: str = "") -> str:
    """Return " (did you mean ...?)" with the known name that the user probably meant; "" if no name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}{ending}?)" if near else ""


def explain_call(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that shows `example` in the error if a function is called with wrong arguments."""

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
