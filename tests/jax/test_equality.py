import numpy as np
import pytest
from click.testing import CliRunner

from tests.campaigns import jax_equality
from tests.campaigns.jax_equality import largest_error, list_excused
from tests.models.jax import plain
from tests.shared import campaigns


@pytest.fixture
def small(monkeypatch):

    def one_product(dtype):
        loss = lambda params, data: ((data @ params) ** 2).mean()  # noqa: E731
        return plain.descend(loss), plain.draw((128, 128), dtype), plain.draw((16, 128), dtype, 1)

    monkeypatch.setattr(plain, "STEPS", {"one_product": one_product})
    monkeypatch.setattr("tests.models.jax.STEPS", plain.STEPS)


def test_differences_are_reported_and_saved(small, monkeypatch, tmp_path):
    path, arguments = (tmp_path / "results.jsonl", ["--models", "one_product", "--workers", "2", "--plans", "1"])
    monkeypatch.setattr(jax_equality, "LIMIT", -1.0)  # nothing is near enough
    monkeypatch.setattr(campaigns, "_run_in_processes", lambda _, cases, *__: map(jax_equality.run_case, cases))
    found = CliRunner().invoke(jax_equality.main, [*arguments, "--results", str(path)])
    assert found.exit_code == 1
    assert "one_product, float64, 2 workers, the default plan: off by" in found.output
    assert "random plan 0: off by" in found.output
    again = CliRunner().invoke(jax_equality.main, ["--summary", "--results", str(path)])
    assert (again.exit_code, found.output.endswith(again.output)) == (1, True)


def test_errors_are_relative_and_nan_counts():
    whole = [np.array([1.0, 100.0]), np.array([np.inf, np.nan, 2.0])]
    assert largest_error(whole, whole) == 0
    assert largest_error([np.array([2.0, 100.0]), whole[1]], whole) == 0.01
    assert not largest_error([whole[0], np.array([np.inf, 0.0, 2.0])], whole) <= 1e300
    assert not largest_error([whole[0], np.array([0.0, np.nan, 2.0])], whole) <= 1e300


def test_errors_of_a_rounding_on_one_device_are_excused():
    noise, number = np.array([1e-17]), np.array([3.0])
    assert largest_error([-noise, number], [noise, number]) == 2
    assert largest_error([-noise, number], [noise, number], [0.5 * noise, number]) == 0
    assert largest_error([-noise, 1.01 * number], [noise, number], [0.5 * noise, number * (1 + 1e-15)]) > 0.009
    assert largest_error([100 * noise], [noise], [0.5 * noise]) == 99
    near = [number * (1 + 1e-12)]  # as far off as a rounding takes it, and allowed: it counts
    assert 5e-13 < largest_error(near, [number], near) < 2e-12
    assert list_excused([-noise, *near], [noise, number], [0.5 * noise, *near]) == [True, False]
