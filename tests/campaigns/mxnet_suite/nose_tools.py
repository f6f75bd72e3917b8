"""What MXNet's tests use of nose, which no longer runs on the Pythons that Tofu supports."""

from __future__ import annotations

import functools
import sys
import unittest
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def make_decorator(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives its argument the name and the documentation of `function`."""

    def decorate(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(wrapper, function)
        del wrapper.__wrapped__  # type: ignore[attr-defined]  # pytest would take the arguments of what it wraps for fixtures
        return wrapper

    return decorate


def raises(*errors: type[BaseException]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for tests that have to end with one of these errors."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            with pytest.raises(errors):
                function(*args, **kwargs)

        return run

    return decorate


def install_nose() -> None:
    """Let `import nose` find this where nose itself cannot be imported."""
    nose, tools = ModuleType("nose"), ModuleType("nose.tools")
    case = unittest.TestCase()
    vars(tools).update(
        make_decorator=make_decorator,
        raises=raises,
        assert_raises=case.assertRaises,
        ok_=case.assertTrue,
        eq_=case.assertEqual,
    )
    vars(nose)["tools"] = tools
    sys.modules.setdefault("nose", nose)
    sys.modules.setdefault("nose.tools", tools)
