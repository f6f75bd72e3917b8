"""The campaign over examples of JAX's libraries."""

from __future__ import annotations

import re
from functools import partial

import jax.numpy as jnp
import numpy as np

from tests.campaigns import jax_examples
from tests.campaigns.jax_examples import Result, Training
from tofu.jax.frontend.versions import in_double_precision


def test_examples_are_compared_with_one_device(monkeypatch):
    def step(weight, x):
        return weight - jnp.tanh(x @ weight).T @ x, weight.sum()

    with in_double_precision():
        draw = partial(np.random.default_rng(0).normal, size=(12, 12))
        result = Result("float64")
        made = Training(result, step, (jnp.asarray(draw()), draw()))
        for plan in ("2 free", "4 random"):
            made.compare(plan, 0)
        assert (result.problems, result.compared, result.excused) == ([], 2, 0)
        assert 0 <= max(result.errors.values()) < 1e-12
        assert result.errors.keys() == {"2 free", "4 random"}
        monkeypatch.setattr(jax_examples, "largest_error", lambda *_: 0.5)
        made.compare("2 free", 0)
        assert result.problems == ["2 free: off by 5.0e-01, allowed are 1e-10"]
        made.compare("9 searched", 0)
        assert re.match("9 searched: .*Error: .*9 ", result.problems[1])
