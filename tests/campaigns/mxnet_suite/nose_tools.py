"""The functions of nose that MXNet's tests use. Nose itself does not run on current Pythons."""

from __future__ import annotations

import functools
import sys
import unittest
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def make_decorator(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:

    def decorate(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(wrapper, function)
        del wrapper.__wrapped__  # type: ignore[attr-defined]  # pytest would look for fixtures named like the wrapped arguments
        return wrapper

    return decorate


def raises(*errors: type[BaseException]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            with pytest.raises(errors):
                function(*args, **kwargs)

        return run

    return decorate


def install_nose() -> None:
    """Install these functions as the module `nose`, unless nose can be imported."""
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
