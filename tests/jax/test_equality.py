import numpy as np
import pytest
from click.testing import CliRunner

from tests.campaigns import jax_equality
from tests.campaigns.jax_equality import largest_error, list_excused
from tests.models.jax import plain
from tests.shared import campaigns


@pytest.fixture
def run(monkeypatch, tmp_path):
    def one_product(dtype):
        loss = lambda params, data: ((data @ params) ** 2).mean()  # noqa: E731
        return plain.descend(loss), plain.draw((128, 128), dtype), plain.draw((16, 128), dtype, 1)

    monkeypatch.setattr("tests.models.jax.STEPS", {"one_product": one_product})
    monkeypatch.setattr(campaigns, "_run_in_processes", lambda _, cases, *__: map(jax_equality.run_case, cases))
    arguments = ["--models", "one_product", "--plans", "2 searched,2 random", "--results", str(tmp_path / "results")]
    return lambda *more: CliRunner().invoke(jax_equality.main, [*arguments, *more])


def test_differences_are_reported_and_saved(run, monkeypatch):
    monkeypatch.setitem(jax_equality.LIMITS, "float64", -1.0)
    found, again = run(), run("--summary")
    assert found.exit_code == again.exit_code == 1
    assert found.output.endswith(again.output)
    assert "one_product, 2 searched: off by" in again.output
    assert "one_product, 2 random: off by" in again.output


def test_equal_steps_have_no_problem(run):
    found = run("--seed", "3")
    assert found.exit_code == 0, found.output
    assert "one_product, seed 3" in found.output


def test_errors_are_relative_and_nan_counts():
    whole = [np.array([1.0, 100.0]), np.array([np.inf, np.nan, 2.0])]
    assert largest_error(whole, whole) == 0
    assert largest_error([np.array([2.0, 100.0]), whole[1]], whole) == 0.01
    assert not largest_error([whole[0], np.array([np.inf, 0.0, 2.0])], whole) <= 1e300
    assert not largest_error([whole[0], np.array([0.0, np.nan, 2.0])], whole) <= 1e300


def test_errors_of_a_rounding_on_one_device_are_excused():
    noise, number = np.array([1e-17]), np.array([3.0])
    near, far = number * (1 + 1e-12), number * 1.01
    # An array with an allowed error is not excused.
    found, rounded = [-noise, 100 * noise, near, far], [0.5 * noise, 0.5 * noise, near, number * (1 + 1e-15)]
    expected = [noise, noise, number, number]
    excused = list_excused(found, expected, rounded)
    assert excused == [True, False, False, False]
    assert [largest_error(*one) for one in zip(*([[x] for x in xs] for xs in (found, expected)), strict=True)] == [
        pytest.approx(error, rel=1e-3) for error in (2, 99, 1e-12, 0.01)
    ]
    assert largest_error(found, expected, excused) == 99
