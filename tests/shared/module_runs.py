"""Training runs of modules, MXNet's and Tofu's, whose parameters the tests compare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import mxnet as mx
import mxnet.optimizer.contrib
import mxnet.optimizer.optimizer
import numpy as np

import tofu

BATCH, FEATURES, CLASSES = 12, 17, 10
HINTS = {"fc0_weight": (0, 1), "fc1_weight": (1, 1), "out_weight": (0, 0), "fc0_bias": (0, 0)}


@dataclass(frozen=True)
class ModuleCase:
    optimizer: str
    parameters: dict[str, Any] = field(default_factory=dict)
    bias: bool = True
    tolerance: float = 1e-12

    def __str__(self) -> str:
        return "-".join([self.optimizer, *(f"{k}={getattr(v, '__name__', v)}" for k, v in self.parameters.items())])


def model(bias: bool = True) -> Any:
    net = mx.sym.Variable("data")
    weight = mx.sym.Variable("fc1_weight", lr_mult=0.5, wd_mult=2.0 if bias else 0.0)
    net = mx.sym.FullyConnected(net, num_hidden=18, name="fc0", no_bias=not bias)
    net = mx.sym.Activation(net, act_type="tanh", name="act0")
    net = mx.sym.FullyConnected(net, weight=weight, num_hidden=14, name="fc1", no_bias=not bias)
    net = mx.sym.Activation(net, act_type="sigmoid", name="act1")
    net = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="out", no_bias=not bias)
    return mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch")


def batches(count: int, seed: int = 0, dtype: str = "float64") -> list[Any]:
    rng = np.random.RandomState(seed)
    return [
        mx.io.DataBatch(
            [mx.nd.array(rng.uniform(-1, 1, (BATCH, FEATURES)), dtype=dtype)],
            [mx.nd.array(rng.randint(0, CLASSES, BATCH), dtype=dtype)],
        )
        for _ in range(count)
    ]


def bind(module: Any, dtype: str = "float64") -> Any:
    shapes = ("data", (BATCH, FEATURES)), ("softmax_label", (BATCH,))
    data, label = (mx.io.DataDesc(name, shape, dtype) for name, shape in shapes)
    module.bind([data], [label])
    return module


def start(module: Any, case: ModuleCase, dtype: str = "float64") -> Any:
    mx.random.seed(7)
    bind(module, dtype).init_params(mx.init.Xavier())
    return with_optimizer(module, case)


def with_optimizer(module: Any, case: ModuleCase) -> Any:
    parameters = {name: value() if callable(value) else value for name, value in case.parameters.items()}
    module.init_optimizer(optimizer=case.optimizer, optimizer_params=parameters)
    return module


def train(module: Any, steps: list[Any]) -> dict[str, np.ndarray]:
    for batch in steps:
        module.forward_backward(batch)
        module.update()
    return parameters_of(module)


def parameters_of(module: Any) -> dict[str, np.ndarray]:
    return {name: value.asnumpy() for group in module.get_params() for name, value in group.items()}


def split_module(case: ModuleCase, workers: int = 4) -> Any:
    names = model(case.bias).list_arguments()
    hints = {name: hint for name, hint in HINTS.items() if name in names} if workers == 4 else None
    return tofu.mod.Module(tofu.partition(model(case.bias), workers, hints=hints))


def largest_error(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    assert found.keys() == expected.keys()
    for values in (found, expected):  # `max` would pass over NaN
        assert all(np.isfinite(value).all() for value in values.values())
    return max(
        float(np.abs(found[name].astype(float) - expected[name]).max() / max(np.abs(expected[name]).max(), 1e-300))
        for name in expected
    )


@contextmanager
def history_in_double_precision() -> Iterator[None]:
    """In a `with` block, let optimizers create all states in float64."""
    with ExitStack() as patched:
        for module in (mxnet.optimizer.optimizer, mxnet.optimizer.contrib):

            def zeros(
                shape: Any, ctx: Any = None, dtype: Any = "float64", _zeros: Any = module.zeros, **options: Any
            ) -> Any:
                return _zeros(shape, ctx, dtype, **options)

            patched.enter_context(mock.patch.object(module, "zeros", zeros))
        yield


def assert_all_close(found: Any, expected: Any, rtol: float = 1e-7, atol: float = 0.0) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        pairs = [(name, found[name], expected[name]) for name in expected]
    else:
        pairs = [(index, *pair) for index, pair in enumerate(zip(found, expected, strict=True))]
    for name, array, wanted in pairs:
        np.testing.assert_allclose(array, wanted, rtol=rtol, atol=atol, err_msg=str(name))
