"""A few random models of each kind under random plans. `make fuzz` runs thousands."""

import mxnet as mx
import pytest

from tests.campaigns.fuzz.models import choose_workers, make_sample
from tests.campaigns.fuzz.sample import Growth
from tests.campaigns.fuzz.trial import Trial, try_sample

SEEDS = {"operators": 2, "layers": 2, "windows": 1, "chains": 1, "recurrences": 1}


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, count in SEEDS.items() for seed in range(count)])
def test_random_model(kind, seed):
    outcome = try_sample(make_sample(seed, kind), choose_workers(seed, kind), seed, randoms=2)
    assert not outcome.problems
    assert sum(outcome.plans.values()) > 1


def test_a_gradient_of_an_output_read_for_its_shape():
    """Only the shape of the output is read, but its gradient is requested."""
    grow = Growth(0)
    data = grow.parameter(6, 4)
    turned = mx.sym.SwapAxis(data, dim1=0, dim2=1)
    trial = Trial(grow.finish(mx.sym.Group([mx.sym.zeros_like(turned), mx.sym.sin(data)])), 4)
    assert trial.check("default", {}, thorough=True) is not None
    assert not trial.outcome.problems
