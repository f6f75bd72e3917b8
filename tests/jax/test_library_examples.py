"""`python -m tests.campaigns.jax_examples`, on examples like those of JAX's libraries."""

from __future__ import annotations

import json
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.campaigns import jax_examples
from tests.campaigns.jax_examples import Case, Result, Training, make_table
from tests.campaigns.jax_examples_zoo.data import on_one_replica
from tests.campaigns.jax_examples_zoo.loading import first_call, load_definitions, load_module
from tofu.jax.frontend.versions import in_double_precision

SCRIPT = """
import jax, tensorflow as tf
from clu import metrics
from neighbour_of_an_example import RATE

tf.random.set_seed(0)

class State(metrics.Collection):
    pass

def main(batches):
    @jax.jit
    def update(weight, batch):
        return weight - RATE * batch

    for batch in batches:
        update(batches[0], batch)
        raise SystemExit("no step was taken")
"""
CELLS = [
    "%matplotlib inline\nimport torch, os",
    "WIDTH = -2\ndata = torch.load('mnist')",
    "def f(x):\n    return x * WIDTH",
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "an_example.py").write_text(SCRIPT)
    (tmp_path / "neighbour_of_an_example.py").write_text("RATE = 0.5")
    cells = [{"cell_type": "code", "source": [text]} for text in CELLS] + [{"cell_type": "markdown", "source": ["x"]}]
    (tmp_path / "a_notebook.ipynb").write_text(json.dumps({"cells": cells}))
    return tmp_path


def test_the_step_within_a_script_is_found_and_not_run(folder):
    script = load_module(folder / "an_example.py")
    step, arguments = first_call(lambda: script.main([jnp.ones(4), jnp.ones(4)]), "update")
    np.testing.assert_array_equal(step(*arguments), np.full(4, 0.5))
    with pytest.raises(LookupError, match="evaluate was not called"):
        first_call(lambda: script.main([]), "evaluate")


def test_a_notebook_is_its_definitions(folder):
    notebook = load_definitions(folder / "a_notebook.ipynb")
    assert notebook.f(3) == -6
    assert not hasattr(notebook, "data")


def test_a_step_of_pmap_runs_on_one_replica():
    step = on_one_replica(lambda w, x: (w - jax.lax.pmean(x, "batch"), jax.lax.psum(1, "batch")), "batch")
    weight, count = step(jnp.ones(3), jnp.full(3, 0.25))
    assert (weight.tolist(), int(count)) == ([0.75] * 3, 1)


def test_an_example_is_held_against_one_device(monkeypatch):
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


def test_what_failed_stands_in_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(jax_examples, "DOCUMENT", tmp_path / "page.md")
    right = Case("right", "2 free", ""), Result("float64", {"2 free": 1e-15}, 4)
    wrong = (
        Case("wrong", "2 free,3 searched", ""),
        Result("float32", {"2 free": 1e-6}, 4, 1, ["3 searched: no description"]),
    )
    other = Case("other", "3 searched", ""), Result("float64", {"3 searched": 0.0}, 4)
    results = {"right": right, "wrong": wrong, "other": other}
    assert make_table(results).columns[3]._cells == ["", "failed", "0.0e+00"]
    jax_examples.write_page(results)
    assert "- wrong: 3 searched: no description" in (tmp_path / "page.md").read_text()
