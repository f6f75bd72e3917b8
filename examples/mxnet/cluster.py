"""Train on two machines of two devices each. Each machine partitions the model over its devices, and has its part of every batch.

python examples/mxnet/cluster.py                # all processes on this machine: a scheduler, a server and two that train
python examples/mxnet/cluster.py --machines 4

On real machines, start the script once for each process, with MXNet's variables. DMLC_ROLE is scheduler, server or worker.
DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT are the scheduler's address. DMLC_NUM_WORKER and DMLC_NUM_SERVER are numbers of processes:

DMLC_ROLE=worker DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9091 DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 python examples/mxnet/cluster.py
"""

import argparse
import os
import socket
import subprocess
import sys

import numpy as np
from side_by_side import draw_images, show

import tofu
import mxnet as mx

WHOLE_BATCH = 32


def read_options():
    """Parse the numbers of machines and steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="training steps (default: %(default)s)")
    parser.add_argument("--machines", type=int, default=2, help="processes that train (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="devices of each (default: %(default)s)")
    return parser.parse_args()


def start_all(options):
    """Run a process of each role on this machine. If one fails, end the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_SERVER": "1"}
    given |= {"DMLC_NUM_WORKER": str(options.machines), "DMLC_NODE_HOST": "127.0.0.1"}
    roles = ["scheduler", "server", *["worker"] * options.machines]
    running = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **given, "DMLC_ROLE": r}) for r in roles
    ]
    try:
        sys.exit(max(process.wait() for process in running[2:]))
    finally:
        for process in running:
            process.kill()


def build():
    """Return a perceptron whose loss is a sum over the batch."""
    net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=256, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=10, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def prepare(module, images, labels, kvstore):
    """Bind the module to the shapes of a batch, and initialize parameters and optimizer."""
    batches = mx.io.NDArrayIter(images, labels, len(images))
    module.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(kvstore, "sgd", {"learning_rate": 0.05, "momentum": 0.9})


def run(options):
    """Train on this machine's part of the batches. For comparison, also train on whole batches with one device."""
    kvstore = mx.kv.create("dist_sync")
    images, labels = draw_images(WHOLE_BATCH * options.steps)
    part = WHOLE_BATCH // kvstore.num_workers
    own = slice(kvstore.rank * part, (kvstore.rank + 1) * part)
    module = tofu.mod.Module(build(), ngpus=options.workers)
    alone = mx.mod.Module(build())
    prepare(module, images[:part], labels[:part], kvstore)
    prepare(alone, images[:WHOLE_BATCH], labels[:WHOLE_BATCH], None)
    losses = []
    for step in range(options.steps):
        rows = slice(step * WHOLE_BATCH, (step + 1) * WHOLE_BATCH)
        found = [advance(module, images[rows][own], labels[rows][own]), advance(alone, images[rows], labels[rows])]
        losses.append((np.mean(found[1][own]), np.mean(found[0])))
    if kvstore.rank == 0:
        print(
            f"The plan of each machine: {module.plan.workers} workers move {module.plan.communication_bytes:,} bytes in a step."
        )
        show(*zip(*losses, strict=True))


def advance(module, images, labels):
    """Run a step, and return the loss of each image before the update."""
    module.forward_backward(mx.io.DataBatch([mx.nd.array(images)], [mx.nd.array(labels)]))
    module.update()
    chosen = module.get_outputs()[0].asnumpy()[np.arange(len(labels)), labels.astype(int)]
    return -np.log(chosen)


if __name__ == "__main__":
    options = read_options()
    run(options) if os.environ.get("DMLC_ROLE") == "worker" else start_all(options)
