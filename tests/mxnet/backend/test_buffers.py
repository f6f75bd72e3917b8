"""The memory that is planned from a worker's outline equals its memory in the execution graph."""

from itertools import cycle

import mxnet as mx
import pytest

import tofu
from tests.models import normalized, spatial
from tests.models.paper import rnn, transformer, wresnet
from tests.models.plain import mlp, residual_cnn
from tests.shared.random_plans import random_plan
from tofu.errors import TofuError
from tofu.mxnet.backend.buffers import add_up_workers, plan_buffers
from tofu.program import write_outlines

MODELS = {
    "mlp": mlp,
    "cnn": residual_cnn,
    "norms": normalized.resnet_v2,
    "attention": normalized.attention,
    "image": spatial.image,
    "rnn": lambda: rnn(2, 16, 12, time_steps=4, features=8, classes=9),
    "transformer": lambda: transformer(1, 16, 2, 4, length=8, vocabulary=32),
    "wresnet": lambda: wresnet(50, 1, 8, image=32, base=8, classes=16, blocks=(1, 1, 1, 1)),
}


def partition(model, workers, **options):
    contexts = [mx.cpu(worker) for worker in range(workers)]
    return tofu.partition(model.symbol, contexts=contexts, cache=False, **options, **model.shapes).planned()


def measure_whole_program(made):
    return add_up_workers(made.choices, plan_buffers(made.choices, made.training))


@pytest.mark.parametrize(("name", "workers"), list(zip(MODELS, cycle([4, 6]), strict=False)))
def test_random_plans_need_what_the_execution_graph_needs(name, workers):
    model = MODELS[name]()
    made = partition(model, workers, on_infeasible="replicate")
    assert made.plan.worker_bytes == measure_whole_program(made)
    for seed in range(3):
        try:
            drawn = partition(model, workers, plan=random_plan(made, seed))
        except TofuError:
            continue  # MXNet's kernels cannot run this plan
        assert drawn.plan.worker_bytes == measure_whole_program(drawn)


WITHOUT_FETCHES = {
    "an unread output": lambda data: mx.sym.moments(data, axes=(2, 3))[0],
    "a sum of gradients": lambda data: mx.sym.linalg_gemm2(data, data) + data,
    "an operator in two steps": lambda data: mx.sym.contrib.BilinearResize2D(data, height=6, width=6),
}


@pytest.mark.parametrize("name", WITHOUT_FETCHES)
def test_plans_without_fetches_need_what_the_execution_graph_needs(name):
    symbol = WITHOUT_FETCHES[name](mx.sym.Variable("data"))
    contexts = [mx.cpu(worker) for worker in range(2)]
    made = tofu.partition(symbol, contexts=contexts, cache=False, data=(4, 3, 5, 5)).planned()
    assert made.plan.communication_bytes == 0
    assert made.plan.worker_bytes == measure_whole_program(made)


def test_plans_are_made_without_the_program_of_all_workers():
    made = partition(MODELS["mlp"](), 4)
    assert "training" not in vars(made)
    assert made.training is made.training


def test_workers_with_equal_outlines_share_one():
    outlines = write_outlines(partition(MODELS["mlp"](), 8, algorithm="data-parallel").choices)
    assert {*outlines.workers.tolist()} == {*range(len(outlines.codes))}
    assert len(outlines.codes) < 8
