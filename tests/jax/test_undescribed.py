"""Plans say which operators have no description, and what that costs."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tdl_ops.jax import DESCRIPTIONS
from tofu.errors import PlanError, UnsupportedError
from tofu.plan import Plan

W, X = jnp.ones((256, 256)), jnp.ones((512, 256))


def step(w, x):
    hidden = jnp.tanh(x @ w)
    return w + hidden.T @ lax.cumsum(hidden, axis=1), hidden.sum()


def refuse(operand, *, axis, reverse):
    raise UnsupportedError("no sums here")


@pytest.fixture(params=["lacking", "refusing"])
def made(request, monkeypatch):
    """The step over 4 devices, where cumsum has no description, or one that refuses it."""
    described = DESCRIPTIONS.copy()
    if request.param == "lacking":
        del described["cumsum"]
    else:
        described["cumsum"] = DESCRIPTIONS.describe(refuse, ("cumsum",))
    monkeypatch.setattr(DESCRIPTIONS, "_described", described)
    return tofu.jax.partition(step, 4, (W, X), undescribed="replicate", cache=False)


def test_a_plan_says_what_is_computed_whole_and_what_it_costs(made):
    (name,), (one,) = made.plan.undescribed.keys(), made.plan.undescribed.values()
    assert name == "cumsum"
    assert one.reason in ("cumsum has no description", "no sums here")
    # Each worker has a quarter of what it reads, and fetches the rest.
    assert one.fetched_bytes == 4 * X.nbytes * 3 // 4
    touched = {"dot_general": 5, "tanh": 4, "transpose": 4, "cumsum": 4, "dot_general_1": 5, "add": 3, "reduce_sum": 2}
    assert one.work_share == pytest.approx(touched["cumsum"] / sum(touched.values()), rel=1e-3)
    shown = f"cumsum ({one.reason}); {one.work_share:.1%} of the step's work, and 1.5 MiB fetched for it"
    assert shown in str(made.plan)
    np.testing.assert_allclose(made(W, X)[0], step(W, X)[0], rtol=1e-5)


def test_a_page_and_a_reason_name_it(made, tmp_path):
    made.save_report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert "<h2>Without a description</h2>" in page
    assert "1.5 MiB</td></tr>" in page
    assert 'and undescribed="replicate" has every worker compute all of it' in " ".join(made.why("cumsum").split())


def test_it_is_saved_with_the_plan(made):
    text = made.plan.to_json()
    loaded = Plan.from_json(text)
    assert loaded == made.plan
    assert loaded.to_json() == text
    assert loaded.undescribed["cumsum"] == made.plan.undescribed["cumsum"]
    old = {name: value for name, value in json.loads(text).items() if name not in ("undescribed", "digest")}
    assert Plan.from_json(json.dumps(old)).undescribed == {}


@pytest.mark.parametrize("value", [3, {"cumsum": 3}, {"cumsum": {}}, {"cumsum": {"reason": "", "bytes": 3}}])
def test_another_value_in_a_file_is_refused(made, value):
    content = json.loads(made.plan.to_json()) | {"undescribed": value}
    with pytest.raises(PlanError, match="undescribed"):
        Plan.from_json(json.dumps(content))


def test_nothing_is_said_where_all_is_described():
    plan = tofu.jax.partition(step, 4, (W, X), undescribed="replicate", cache=False).plan
    assert plan.undescribed == {}
    assert "undescribed" not in plan.to_json()
    assert "not described" not in str(plan)
