"""Every optimizer of MXNet with its options."""

import mxnet as mx

from tests.shared.module_runs import ModuleCase


def falling():
    return mx.lr_scheduler.FactorScheduler(step=7, factor=0.5, base_lr=0.1)


CLIPPED = {"wd": 1e-2, "clip_gradient": 0.05}
CASES = [
    ModuleCase("sgd", {"learning_rate": 0.1}),
    ModuleCase("sgd", {"learning_rate": 0.1, "momentum": 0.9, **CLIPPED}),
    ModuleCase("sgd", {"momentum": 0.9, "lr_scheduler": falling, "wd": 1e-3}),
    ModuleCase("sgd", {"learning_rate": 0.1, "rescale_grad": 0.3}),
    ModuleCase("ccsgd", {"learning_rate": 0.1, "momentum": 0.9}),
    ModuleCase("nag", {"learning_rate": 0.1, "momentum": 0.9, **CLIPPED}),
    ModuleCase("signum", {"learning_rate": 0.01, "momentum": 0.9, "wd_lh": 1e-3, **CLIPPED}),
    ModuleCase("signum", {"learning_rate": 0.01, "momentum": 0.0}),
    ModuleCase("ftml", {"learning_rate": 0.01, **CLIPPED}),
    # MXNet computes these norms, and the rates from them, in float32.
    ModuleCase("lars", {"learning_rate": 0.5, "momentum": 0.9, "eta": 0.01, **CLIPPED}, tolerance=1e-7),
    ModuleCase("lars", {"momentum": 0.9, "eta": 0.01, "lr_scheduler": falling}, tolerance=1e-7),
    ModuleCase("lars", {"learning_rate": 0.5, "eta": 0.01}, tolerance=1e-7),
    ModuleCase("lamb", {"learning_rate": 0.01, **CLIPPED}, tolerance=1e-7),
    ModuleCase("lamb", {"learning_rate": 0.01, "lower_bound": 0.5, "upper_bound": 2.0}, tolerance=1e-7),
    ModuleCase("lbsgd", {"learning_rate": 0.1, "momentum": 0.9, "warmup_strategy": "lars", **CLIPPED}),
    ModuleCase("lbsgd", {"learning_rate": 0.1, "batch_scale": 4, "warmup_strategy": "sqrt", "updates_per_epoch": 5}),
    ModuleCase("dcasgd", {"learning_rate": 0.1, **CLIPPED}),
    ModuleCase("sgld", {"learning_rate": 0.01, **CLIPPED}),
    ModuleCase("adam", {"learning_rate": 0.01, **CLIPPED}),
    ModuleCase("adam", {"lr_scheduler": falling}),
    ModuleCase("adagrad", {"learning_rate": 0.1, **CLIPPED}),
    ModuleCase("groupadagrad", {"learning_rate": 0.1, "clip_gradient": 0.05}, bias=False),
    ModuleCase("rmsprop", {"learning_rate": 0.01, **CLIPPED}),
    ModuleCase("rmsprop", {"learning_rate": 0.01, "centered": True, "clip_weights": 0.5}),
    ModuleCase("adadelta", dict(CLIPPED)),
    ModuleCase("ftrl", {"learning_rate": 0.1, "lamda1": 1e-4, **CLIPPED}),
    ModuleCase("adamax", {"learning_rate": 0.01, **CLIPPED}),
    ModuleCase("nadam", {"learning_rate": 0.01, **CLIPPED}),
    ModuleCase("test"),
]
