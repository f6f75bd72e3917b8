"""Operators that throw while the model runs, and numbers that are none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

import tofu
from tests.campaigns.fault_cases.setting import Fault, assert_same, begin, model, parameters, refusal, train

ROWS, WIDTH = 8, 8
ROUTES: dict[str, Callable[[Any], Any]] = {
    "tofu.mod.Module": lambda symbol: tofu.mod.Module(symbol, data_names=["data", "second"], label_names=None),
    "mx.mod.Module": lambda symbol: mx.mod.Module(symbol, data_names=["data", "second"], label_names=None),
}
SECOND = {
    "take": (np.arange(WIDTH), np.arange(WIDTH) + 99),
    "potrf": (-10.0 * np.eye(WIDTH), 1000.0 * np.eye(WIDTH)),
    "backward": (np.ones(ROWS), -np.ones(ROWS)),
}


class _Thrower(mx.operator.CustomOp):  # type: ignore[misc]  # MXNet is untyped
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        if float(in_data[1].asnumpy()[0]) < 0:
            raise RuntimeError("thrown in backward")
        self.assign(in_grad[0], req[0], out_grad[0])
        self.assign(in_grad[1], req[1], in_data[1] * 0)


class _ThrowerProperties(mx.operator.CustomOpProp):  # type: ignore[misc]  # MXNet is untyped
    def list_arguments(self) -> list[str]:
        return ["data", "second"]

    def infer_shape(self, shapes: Any) -> Any:
        return shapes, [shapes[0]], []

    def create_operator(self, *_: Any) -> _Thrower:
        return _Thrower()


mx.operator.register("tofu_fault_thrower")(_ThrowerProperties)


def throwing_model(kind: str) -> Any:
    """A model with an operator that throws for some values of its second input, in the forward or in the backward pass."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=WIDTH, name="fc0")
    second = mx.sym.Variable("second")
    if kind == "take":
        net = mx.sym.take(net, second, axis=1, mode="raise")
    elif kind == "potrf":
        product = mx.sym.linalg.gemm2(net, net, transpose_a=True)
        factor = mx.sym.linalg.potrf(mx.sym.expand_dims(mx.sym.broadcast_sub(product, second), 0))
        net = mx.sym.reshape(factor, (WIDTH, WIDTH))
    else:
        net = mx.sym.Custom(net, second, op_type="tofu_fault_thrower")
    net = mx.sym.FullyConnected(net, num_hidden=4, name="fc1")
    symbol = mx.sym.MakeLoss(mx.sym.sum(net * net))
    return tofu.partition(symbol, 2, undescribed="replicate")


def throw(_: Path, kind: str, route: str, times: int) -> str:
    """The weights stay as they were before the failed step, and the next step is that of a run without it."""

    def run(bad_steps: int) -> tuple[list[str], dict[str, Any]]:
        module = ROUTES[route](throwing_model(kind))
        good, bad = (mx.nd.array(value) for value in SECOND[kind])
        module.bind([("data", (ROWS, 5)), ("second", good.shape)])
        mx.random.seed(1)
        module.init_params(mx.init.Xavier())
        module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.01, "momentum": 0.9})
        data, said = mx.nd.array(np.random.RandomState(1).uniform(0, 4, (ROWS, 5))), []
        for second in (good, *[bad] * bad_steps, good, good):
            before = parameters(module)
            if second is bad:
                with refusal("An operator failed while the model ran") as said:
                    module.forward_backward(mx.io.DataBatch([data, second]))
                    module.update()
                assert_same(parameters(module), before)
            else:
                module.forward_backward(mx.io.DataBatch([data, second]))
                module.update()
        return said, parameters(module)

    (_, expected), (said, found) = run(0), run(times)
    assert_same(found, expected)
    return said[0]


def not_a_number(_: Path, value: float) -> str:
    """As on one device: what becomes NaN there becomes NaN here, and nothing else."""
    results = []
    for module in (begin(mx.mod.Module(model())), begin()):
        train(module, 0, 1)
        poisoned = mx.nd.ones((12, 17), dtype="float64")
        poisoned[0, 0] = value
        module.forward_backward(mx.io.DataBatch([poisoned], [mx.nd.zeros(12, dtype="float64")]))
        module.update()
        results.append({name: np.isfinite(array) for name, array in parameters(module).items()})
    assert_same(results[1], results[0])
    return "the same cells are finite as on one device"


FAULTS = [
    *(
        Fault(
            "operator throws", f"{kind}, {route}, {times} in a row", partial(throw, kind=kind, route=route, times=times)
        )
        for kind in SECOND
        for route in ROUTES
        for times in (1, 3)
    ),
    *(Fault("no number", f"input {value}", partial(not_a_number, value=value)) for value in (np.nan, np.inf, 1e308)),
]
