"""Train the perceptron of mlp.py in two processes with two devices each, as on two hosts.

Each process only has its rows of a batch.

python examples/jax/two_processes.py
python examples/jax/two_processes.py --steps 4 --directory DIRECTORY                              # saves the state
python examples/jax/two_processes.py --steps 8 --directory DIRECTORY --processes 4 --devices 1    # continues

On several hosts, run the same command on each, with the number of the host:

python examples/jax/two_processes.py --address host-0:8476 --process 0
"""

import argparse
import os
import socket
import subprocess
import sys
import time

import jax
import numpy as np
from mlp import draw_batch, example_args, make_state, step
from shards import find_last, restore, save
from side_by_side import AGREEMENT, find_distance

import tofu.jax


def read_options():
    """Parse the number of processes, and the number of this one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="training steps (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--devices", type=int, default=2, help="of the CPU, in each process (default: %(default)s)")
    parser.add_argument("--directory", help="of checkpoints: training continues from the last")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints (default: %(default)s)")
    parser.add_argument("--address", help="host and port of process 0; without it all processes are started here")
    parser.add_argument("--process", type=int, default=0, help="the number of this one, with --address")
    return parser.parse_args()


def start_all(options):
    """Start all processes on this machine. If one fails, end the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, *sys.argv, "--address", address, "--process"]
    given = {"JAX_PLATFORMS": "cpu", **os.environ}
    running = [subprocess.Popen([*command, str(process)], env=given) for process in range(options.processes)]
    try:
        while running:
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                if process.returncode:
                    sys.exit(1)
                running.remove(process)
            time.sleep(0.05)
    finally:
        for process in running:
            process.kill()


def train(options):
    """Train in one process. For comparison, also run the step on a single device."""
    jax.config.update("jax_num_cpu_devices", options.devices)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(options.address, options.processes, options.process)
    say = print if options.process == 0 else lambda *_, **__: None

    parallel = tofu.jax.partition(step, jax.device_count(), example_args())  # the devices of all processes
    whole, plan = jax.jit(step), parallel.plan
    say(f"The plan: {plan.workers} workers move {plan.communication_bytes:,} bytes in a step ({plan.optimality}),")
    say(f"{parallel.host_bytes:,} of them between hosts.\n\nstep   one device   partitioned", flush=True)
    state = make_state(jax.random.key(2))
    done = find_last(options.directory) if options.directory else 0
    placed = parallel.place(state)
    if done:
        placed = restore(options.directory, done, example_args()[0], parallel.shardings[0])
    distances = [0.0]
    for number in range(1, options.steps + 1):
        batch = draw_batch(jax.random.fold_in(jax.random.key(1), number))
        state, expected = whole(state, batch)
        if number > done:
            part = jax.tree.map(lambda x: np.split(np.asarray(x), options.processes)[options.process], batch)
            placed, loss = parallel(placed, parallel.place_part(part))
            distances.append(find_distance(loss, expected))
            if options.directory and (number % options.every == 0 or number == options.steps):
                save(options.directory, number, placed)
            say(f"{number:4}   {float(expected):10.6f}   {float(loss):11.6f}", flush=True)
    say(f"\nLosses are at most {np.max(distances):.1e} of their size apart.")
    most = AGREEMENT[expected.dtype.name]
    if not np.max(distances) <= most:
        sys.exit(f"That is more than {most:.0e}, and a defect of Tofu: please report it.")


def main():
    """Run one process, or start all processes."""
    options = read_options()
    start_all(options) if options.address is None else train(options)


if __name__ == "__main__":
    main()
