"""One of several machines of `test_horovod.py`."""

import sys
from pathlib import Path

import numpy as np
import on_machines

import tofu  # isort: skip  makes MXNet importable
import horovod.mxnet as hvd
import mxnet as mx


def share(module):
    parameters, states = module.get_params()
    hvd.broadcast_parameters(parameters, root_rank=0)
    module.set_params(parameters, states)


def make_optimizer(rows):
    return hvd.DistributedOptimizer(mx.optimizer.create("sgd", rescale_grad=1 / rows, **on_machines.RATES))


def make_trainer(parameters):
    hvd.broadcast_parameters(parameters, root_rank=0)
    hvd.allreduce_ = on_machines.only_shards(hvd.allreduce_, 0, parameters)
    return hvd.DistributedTrainer(parameters, "sgd", on_machines.RATES)


def main():
    hvd.init()
    batches = on_machines.list_batches(hvd.rank(), hvd.size())
    rows, seed = len(batches[0][0]), 1 + hvd.rank()
    found = on_machines.train_module(
        on_machines.split(on_machines.build()), batches, seed, share, None, make_optimizer(rows)
    )
    whole = mx.mod.Module(tofu.partition(on_machines.build(), 2), label_names=["label"])
    unmodified = on_machines.train_module(whole, batches, seed, share, None, make_optimizer(rows))
    found |= {f"unmodified {name}": value for name, value in unmodified.items()}
    found |= on_machines.train_block(batches, seed, make_trainer, rows)
    path = Path(sys.argv[1])
    np.savez(path.with_stem(f"{path.stem}{hvd.rank()}"), **found)


if __name__ == "__main__":
    main()
