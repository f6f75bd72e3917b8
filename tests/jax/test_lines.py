"""The line of the user's program in errors, plans, tables, and pages."""

from __future__ import annotations

import inspect

import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from jax import lax

import tofu.jax
from tdl_ops.jax import DESCRIPTIONS
from tofu.command_line.main import main
from tofu.errors import InfeasibleError, PlanError, UndescribedOperatorError, UnsupportedError
from tofu.plan import Plan

X = jnp.ones((64, 64))


def add_rows(x):
    return lax.cumsum(x * 2, axis=0)


def run_total(x):
    return lax.cumsum(x)


def line_of(function, offset=1):
    """Where the body of a function is, as `file:line`."""
    return f"{__file__}:{inspect.getsourcelines(function)[1] + offset}"


def test_a_plan_names_the_line_of_each_operator():
    plan = tofu.jax.partition(add_rows, 2, (X,)).plan
    assert dict(plan.lines) == dict.fromkeys(plan.operators, line_of(add_rows))
    assert all(f":{line_of(add_rows).rpartition(':')[2]}" in row for row in str(plan).splitlines()[3:5])
    loaded = Plan.from_json(plan.to_json())
    assert loaded == plan
    assert not loaded.lines
    assert "test_lines" not in str(loaded)


def test_lines_are_looked_up_when_they_are_shown(monkeypatch):
    monkeypatch.setattr("tofu.jax.frontend.versions._list_lines", lambda _: pytest.fail("looked up"))
    tofu.jax.partition(add_rows, 2, (X,), cache=False)


def test_a_table_and_a_page_name_the_line(tmp_path):
    made = tofu.jax.partition(add_rows, 2, (X,))
    made.save_report(tmp_path / "plan.html")
    file = line_of(add_rows).rpartition("/")[2]
    assert file in (tmp_path / "plan.html").read_text()
    assert file in made.why("cumsum").replace("\n", "")


def test_the_table_of_a_command_names_the_line(tmp_path):
    (tmp_path / "train.py").write_text(
        "import jax.numpy as jnp\n\n\n"
        "def step(x):\n    return jnp.sin(x)\n\n\n"
        "def example_args():\n    return (jnp.ones((64, 64)),)\n"
    )
    command = ["plan", f"{tmp_path / 'train.py'}:step", "--workers", "2"]
    plain, with_lines = (CliRunner().invoke(main, [*command, *more]).output for more in ((), ("--lines",)))
    counts = [
        "".join(output.split()).count("train.py:5") for output in (plain, with_lines)
    ]  # it may be broken into lines
    assert counts == [1, 2]  # the name of the row, and the file with its folder


@pytest.mark.parametrize(
    ("error", "arguments", "options"),
    [
        (InfeasibleError, (run_total, 2, (jnp.ones(64),)), {}),
        (InfeasibleError, (add_rows, 8, (X[:2, :2],)), {}),
        (PlanError, (add_rows, 2, (X,)), {"hints": {"cumsum": "i0"}}),
        (PlanError, (add_rows, 8, (X[:, :4],)), {"hints": {"cumsum": "i1"}}),
    ],
)
def test_errors_about_an_operator_name_its_line(error, arguments, options):
    with pytest.raises(error) as found:
        tofu.jax.partition(*arguments, **options)
    assert line_of(arguments[0]) in str(found.value)


def test_operators_without_a_description_are_named_with_their_lines(monkeypatch):
    described = DESCRIPTIONS.copy()
    del described["cumsum"]
    monkeypatch.setattr(DESCRIPTIONS, "_described", described)
    with pytest.raises(UndescribedOperatorError) as found:
        tofu.jax.partition(add_rows, 2, (X,))
    assert f"cumsum, used by cumsum at {line_of(add_rows)}" in str(found.value)


def test_operators_that_a_description_does_not_cover_are_named_with_their_lines(monkeypatch):
    def refuse(operand, *, axis, reverse):
        raise UnsupportedError("no sums here")

    described = DESCRIPTIONS.copy() | {"cumsum": DESCRIPTIONS.describe(refuse, ("cumsum",))}
    monkeypatch.setattr(DESCRIPTIONS, "_described", described)
    with pytest.raises(UnsupportedError) as found:
        tofu.jax.partition(add_rows, 2, (X,))
    assert f"cumsum cumsum at {line_of(add_rows)} of (64, 64): no sums here" in str(found.value)
