"""MXNet's GPU kernels that the emitted graph requests. There is no GPU here, so only the graph is checked."""

import json

import mxnet as mx
import pytest

from tests.models.plain import PlainModel
from tests.shared.training import bind_partitioned
from tofu.mxnet.backend.inference import build_inference


def partition(hints):
    normalized = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn", fix_gamma=False)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(normalized)), {"data": (8, 6, 4, 4)}, 8)
    return bind_partitioned(model, 2, "float32", hints=hints).partition


def list_nodes(graph) -> list[dict]:
    nodes = json.loads(graph.symbol.tojson())["nodes"]
    return [node for node in nodes if node["op"].removeprefix("_tofu_clone_") in ("BatchNorm", "_backward_BatchNorm")]


@pytest.mark.parametrize("forward", ["b", "c"])
@pytest.mark.parametrize("backward", ["b", "c"])
def test_moving_statistics_are_updated_in_the_backward_pass(forward, backward):
    """cuDNN's BatchNorm would update them in the forward pass, and the backward pass of another worker does not wait for that."""
    stock = list_nodes(partition({"bn": forward, "bn_backward": backward}).training)
    wanted = {"_backward_BatchNorm"} if backward == "c" else set()
    if forward == backward == "c":
        wanted.add("BatchNorm")
    assert {node["op"].removeprefix("_tofu_clone_") for node in stock} == wanted
    assert all(node["attrs"]["cudnn_off"] == "True" for node in stock)


def test_inference_may_use_cudnns_kernel():
    stock = list_nodes(build_inference(partition({})))
    assert stock
    assert all(node["attrs"].get("cudnn_off", "False") == "False" for node in stock)
