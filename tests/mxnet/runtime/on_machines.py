"""One of several machines of `test_cluster.py`, or a single machine with the joint batch."""

import os
import sys
from pathlib import Path

import numpy as np

import tofu  # isort: skip  makes MXNet importable
import mxnet as mx

ROWS, STEPS = 8, 3
RATES = {"learning_rate": 0.1, "momentum": 0.9}


def draw(*shape, seed):
    return np.random.RandomState(seed).randn(*shape)


def list_batches(rank, machines):
    part = ROWS // machines
    own = slice(rank * part, (rank + 1) * part)
    return [(draw(ROWS, 6, seed=s)[own], draw(ROWS, 4, seed=100 + s)[own]) for s in range(STEPS)]


def build():
    net = mx.sym.FullyConnected(mx.sym.Variable("data", dtype="float64"), num_hidden=8, name="a")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=4, name="b")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="loss")


def split(net, **options):
    return tofu.mod.Module(tofu.partition(net, 2, **options), label_names=["label"])


def train_module(module, batches, seed, start, *optimizer):
    """`start` shares the initial values if the optimizer does not."""
    module.bind(
        *([mx.io.DataDesc(name, a.shape, "float64")] for name, a in zip(("data", "label"), batches[0], strict=True))
    )
    mx.random.seed(seed)
    module.init_params(mx.init.Normal(0.5))
    start(module)
    module.init_optimizer(*optimizer)
    for data, label in batches:
        data, label = (mx.nd.array(array, dtype="float64") for array in (data, label))
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def train_block(batches, seed, make_trainer, rows):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=6, prefix="c_"))
    net.add(mx.gluon.nn.Dense(4, in_units=8, prefix="d_"))
    net.cast("float64")
    mx.random.seed(seed)
    net.initialize(mx.init.Normal(0.5))
    net = tofu.gluon.partition(net, 2)
    trainer = make_trainer(net.collect_params())
    measure = mx.gluon.loss.L2Loss()
    for data, label in batches:
        with mx.autograd.record():
            loss = measure(net(mx.nd.array(data, dtype="float64")), mx.nd.array(label, dtype="float64"))
        loss.backward()
        trainer.step(rows)
    return {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}


def only_shards(send, position, parameters):
    """Wrap `send` so that it refuses to send a whole weight."""
    weights = {parameter.shape for parameter in parameters.values() if len(parameter.shape) > 1}

    def send_shard(*arguments, **options):
        assert arguments[position].shape not in weights
        return send(*arguments, **options)

    return send_shard


def main():
    is_alone = "DMLC_ROLE" not in os.environ
    kvstore = None if is_alone else mx.kv.create("dist_sync")
    rank, machines = (0, 1) if is_alone else (kvstore.rank, kvstore.num_workers)
    batches = list_batches(rank, machines)
    found = train_module(split(build()), batches, 1 + rank, lambda module: None, kvstore, "sgd", RATES)

    def make_trainer(**options):
        def make(parameters):
            if kvstore:
                kvstore.pushpull = only_shards(kvstore.pushpull, 1, parameters)
            return mx.gluon.Trainer(parameters, "sgd", RATES, kvstore=kvstore, **options)

        return make

    found |= train_block(batches, 1, make_trainer(update_on_kvstore=False), ROWS)
    if kvstore:  # set last, because servers update all that is sent from then on
        on_servers = train_block(batches, 1, make_trainer(), ROWS)
        found |= {f"servers {name}": value for name, value in on_servers.items()}
    path = Path(sys.argv[1])
    np.savez(path if is_alone else path.with_stem(f"{path.stem}{rank}"), **found)


if __name__ == "__main__":
    main()
