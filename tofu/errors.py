"""Every error that Tofu raises on purpose.

`TofuError` and its subclasses are the user's: something in the model, the shapes, the plan or the call has to change, and the
message names the thing, both values, the rule and the remedy. They are `ValueError`s, so that callers who do not know Tofu
catch them as usual. `InternalError` is ours and asks for a report.
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
    """The base of all errors that the user can mend."""


class DescriptionError(TofuError):
    """A TDL description is malformed; the message gives the file and the line."""


class NotAffineError(DescriptionError):
    """An index expression is outside what interval analysis covers (paper section 4.2, Figure 4)."""


class UndescribedOperatorError(TofuError):
    """The model has an operator without a description."""


class ShapeError(TofuError):
    """Input shapes are missing, contradictory or belong to unknown names."""


class DeviceError(TofuError):
    """The devices asked for do not exist, or are not as many as the workers."""


class PlanError(TofuError):
    """A plan or a hint cannot be applied to this graph."""


class InfeasibleError(TofuError):
    """No plan exists: there are more workers than the model can feed."""


class UnsupportedError(TofuError):
    """A use of a framework's interface that cannot be partitioned; the message shows the way out."""


class ExecutionError(TofuError):
    """An operator failed while the model ran; the message says what is lost."""


class OutOfMemoryError(TofuError):
    """There is not enough memory for what was asked."""


class FileError(TofuError, OSError):
    """A file cannot be written; what was there before is as it was. Also an OSError, with its number."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class NotReadyError(TofuError, AssertionError):
    """Something has to be called first; MXNet asserts that."""


class MissingParametersError(TofuError, RuntimeError):
    """Parameters are not given that the model has; MXNet raises a RuntimeError."""


class ArgumentTypeError(ShapeError, TypeError):
    """What is given is of another kind than what is asked for, or for an argument that there is not; MXNet raises a TypeError."""


class InternalError(RuntimeError):
    """A check of Tofu's own work failed. The numbers of the step must not be trusted."""

    def __init__(self, message: str) -> None:
        report = "Please report it with the model and the plan (made.plan.to_json())."
        super().__init__(f"{message}\nThis is a defect of Tofu, not of your model. {report}")


def raise_together(error: type[TofuError], headline: str, problems: Iterable[str]) -> None:
    """Raise `error` with one line per problem, or return when there is none."""
    lines = list(problems)
    if lines:
        raise error("\n".join([headline, *(f"  - {line}" for line in lines)]))


def find_near(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names that were probably meant: those with `name` below a scope or a path, then those spelled alike, else those that
    contain it.
    """
    known = list(known)
    below = [each for each in known if each.endswith(f"/{name}")]
    near = list(dict.fromkeys([*below, *get_close_matches(name, known, n=count)]))
    return (near or [each for each in known if name in each])[:count]


def first_sentence(error: object) -> str:
    """Return the first sentence of an error, on one line and without its full stop."""
    return " ".join(str(error).split(". ")[0].split())


def suggest(name: str, known: Iterable[str], ending: str = "") -> str:
    """What to add to a message about an unknown name: the known one that was probably meant, if there is any."""
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}{ending}?)" if near else ""


def explain_call(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that replaces the TypeError of a wrong call by an ArgumentTypeError with an example."""

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
