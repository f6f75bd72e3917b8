"""The benchmarks' models have the sizes of the paper, and scale down."""

import pytest

import tofu
from benchmarks.model_sizes import compare
from tests.models.paper import rnn, transformer, wresnet

MISPRINTED = "RNN-8-6K"


def test_sizes_are_those_of_table_2():
    deviations = {name: here / paper - 1 for name, paper, here in compare()}
    assert len(deviations) == 21
    assert {name for name, deviation in deviations.items() if abs(deviation) > 0.02} == {MISPRINTED}


@pytest.mark.parametrize(
    "model",
    [
        wresnet(50, 1, 2, image=32, classes=10, base=4, blocks=(1, 1, 1, 1)),
        rnn(2, 16, 4, time_steps=2, features=8, classes=10),
        transformer(1, 16, 2, 2, length=4, vocabulary=32),
    ],
    ids=["wresnet", "rnn", "transformer"],
)
def test_small_models_have_a_plan(model):
    assert tofu.partition(model.symbol, ngpus=2, **model.shapes).plan.communication_bytes > 0
