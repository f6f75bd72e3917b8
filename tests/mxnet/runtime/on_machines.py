"""One of several machines that train together, as `test_cluster.py` starts them; or, without others, what they should get to.

python on_machines.py RESULTS.npz
"""

import os
import sys
from pathlib import Path

import numpy as np

import tofu  # isort: skip  makes MXNet importable
import mxnet as mx

ROWS, STEPS = 8, 3


def draw(*shape, seed):
    return np.random.RandomState(seed).randn(*shape)


def list_batches(rank, machines):
    """This machine's part of each batch."""
    part = ROWS // machines
    own = slice(rank * part, (rank + 1) * part)
    return [(draw(ROWS, 6, seed=s)[own], draw(ROWS, 4, seed=100 + s)[own]) for s in range(STEPS)]


def train_module(kvstore, batches):
    net = mx.sym.FullyConnected(mx.sym.Variable("data", dtype="float64"), num_hidden=8, name="a")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=4, name="b")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="loss")
    module = tofu.mod.Module(net, label_names=["label"], ngpus=2)
    describe = [
        mx.io.DataDesc(name, array.shape, "float64") for name, array in zip(("data", "label"), batches[0], strict=True)
    ]
    module.bind(describe[:1], describe[1:])
    mx.random.seed(1 + kvstore.rank if kvstore else 1)  # all begin with the parameters of the first
    module.init_params(mx.init.Normal(0.5))
    module.init_optimizer(kvstore, "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for data, label in batches:
        module.forward_backward(
            mx.io.DataBatch([mx.nd.array(data, dtype="float64")], [mx.nd.array(label, dtype="float64")])
        )
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def train_block(kvstore, batches):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    net.add(
        mx.gluon.nn.Dense(8, activation="tanh", in_units=6, prefix="c_"), mx.gluon.nn.Dense(4, in_units=8, prefix="d_")
    )
    net.cast("float64")
    mx.random.seed(1)  # a Trainer shares the parameters at its first update only
    net.initialize(mx.init.Normal(0.5))
    net = tofu.gluon.partition(net, 2)
    options = {
        "kvstore": kvstore,
        "update_on_kvstore": False if kvstore else None,
    }  # MXNet's servers update in single precision
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **options)
    measure = mx.gluon.loss.L2Loss()
    for data, label in batches:
        with mx.autograd.record():
            loss = measure(net(mx.nd.array(data, dtype="float64")), mx.nd.array(label, dtype="float64"))
        loss.backward()
        trainer.step(ROWS)
    return {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}


def main():
    is_alone = "DMLC_ROLE" not in os.environ
    kvstore = None if is_alone else mx.kv.create("dist_sync")
    batches = list_batches(*((0, 1) if is_alone else (kvstore.rank, kvstore.num_workers)))
    found = {**train_module(kvstore, batches), **train_block(kvstore, batches)}
    path = Path(sys.argv[1])
    np.savez(path if is_alone else path.with_stem(f"{path.stem}{kvstore.rank}"), **found)


if __name__ == "__main__":
    main()
