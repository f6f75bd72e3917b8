import json

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tdl_ops.jax import DESCRIPTIONS
from tofu.errors import UndescribedOperatorError, UnsupportedError
from tofu.plan import Plan

W, X = jnp.ones((256, 256)), jnp.ones((512, 256))


def step(w, x):
    hidden = jnp.tanh(x @ w)
    return w + hidden.T @ lax.sort(hidden, dimension=1), hidden.sum()


def refuse(operand, *, dimension, num_keys):
    raise UnsupportedError("no sorting here")


def test_undescribed_operators_are_named_with_their_lines(monkeypatch):
    described = DESCRIPTIONS.copy()
    del described["sort"]
    monkeypatch.setattr(DESCRIPTIONS, "_described", described)
    with pytest.raises(UndescribedOperatorError, match=r"sort, used by sort at .*test_undescribed\.py:\d+"):
        tofu.jax.partition(step, 4, (W, X))
    described["sort"] = DESCRIPTIONS.describe(refuse, ("sort",))
    with pytest.raises(UnsupportedError, match=r"sort sort at .*test_undescribed\.py:\d+ of .*: no sorting here"):
        tofu.jax.partition(step, 4, (W, X))


@pytest.fixture(params=["lacking", "refusing"])
def made(request, monkeypatch):
    """Partition the step over 4 devices. `sort` has no description, or one that refuses to describe it."""
    described = DESCRIPTIONS.copy()
    if request.param == "lacking":
        del described["sort"]
    else:
        described["sort"] = DESCRIPTIONS.describe(refuse, ("sort",))
    monkeypatch.setattr(DESCRIPTIONS, "_described", described)
    return tofu.jax.partition(step, 4, (W, X), undescribed="replicate", cache=False)


def test_plans_report_replicated_operators_and_their_cost(made):
    (name,), (undescribed,) = made.plan.undescribed.keys(), made.plan.undescribed.values()
    assert name == "sort"
    assert undescribed.reason in ("sort has no description", "no sorting here")
    # Each worker has a quarter of the operand, and fetches the rest.
    assert undescribed.fetched_bytes == 4 * X.nbytes * 3 // 4
    touched = {"dot_general": 5, "tanh": 4, "transpose": 4, "sort": 4, "dot_general_1": 5, "add": 3, "reduce_sum": 2}
    assert undescribed.work_share == pytest.approx(touched["sort"] / sum(touched.values()), rel=1e-3)
    shown = f"sort ({undescribed.reason}); {undescribed.work_share:.1%} of the step's work, and 1.5 MiB fetched for it"
    assert shown in str(made.plan)
    np.testing.assert_allclose(made(W, X)[0], step(W, X)[0], rtol=1e-5)


def test_pages_and_reasons_name_undescribed_operators(made, tmp_path):
    made.save_report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert "<h2>Without a description</h2>" in page
    assert "1.5 MiB</td></tr>" in page
    assert 'and undescribed="replicate" has every worker compute all of it' in " ".join(made.why("sort").split())


def test_undescribed_operators_are_saved_with_the_plan(made):
    text = made.plan.to_json()
    loaded = Plan.from_json(text)
    assert loaded == made.plan
    assert loaded.to_json() == text
    assert loaded.undescribed["sort"] == made.plan.undescribed["sort"]
    old = {name: value for name, value in json.loads(text).items() if name not in ("undescribed", "digest")}
    assert Plan.from_json(json.dumps(old)).undescribed == {}
