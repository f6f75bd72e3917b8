"""Save and restore a sharded state. Any number of processes can read what another number of processes wrote.

Each process writes the shards of its devices, and reads the elements that its devices need. All hosts must see the
directory. The last complete state is used. A state is a tree of numeric arrays.
"""

import shutil
from pathlib import Path

import jax
import numpy as np
from jax.experimental.multihost_utils import sync_global_devices

from tofu.jax import UnevenSharding

DONE = "complete"


def save(directory, step, state):
    """Write the state after a number of steps. All processes must call this."""
    path = Path(directory) / f"step-{step:08}"
    if jax.process_index() == 0:
        shutil.rmtree(path, ignore_errors=True)  # from an interrupted write
        path.mkdir(parents=True)
    sync_global_devices(f"{path} is there")
    for number, array in enumerate(jax.tree.leaves(state)):
        for shard in array.addressable_shards:
            if shard.replica_id == 0:
                begins = [part.indices(extent)[0] for part, extent in zip(shard.index, array.shape, strict=True)]
                np.save(path / "-".join(map(str, [number, *begins])), shard.data)
    sync_global_devices(f"{path} is written")
    if jax.process_index() == 0:
        (path / DONE).touch()


def find_last(directory):
    """Return the number of steps of the last complete state, or 0."""
    return max(
        (int(path.parent.name.removeprefix("step-")) for path in Path(directory).glob(f"step-*/{DONE}")), default=0
    )


def restore(directory, step, shapes, shardings):
    """Return the state after `step` steps. `shapes` is a tree of its shapes and types, and `shardings` of its shardings."""
    path = Path(directory) / f"step-{step:08}"

    def read(number, like, sharding):
        files = list(path.glob(f"{number}.npy" if not like.shape else f"{number}-*.npy"))

        def assemble(index):
            wanted = [part.indices(extent)[:2] for part, extent in zip(index, like.shape, strict=True)]
            out = np.empty([end - begin for begin, end in wanted], like.dtype)
            for file in files:
                held = np.load(file, mmap_mode="r" if like.shape else None).view(like.dtype)
                first = list(map(int, file.stem.split("-")[1:]))
                both = [(max(b, f), min(e, f + n)) for (b, e), f, n in zip(wanted, first, held.shape, strict=True)]
                if all(b < e for b, e in both):
                    here, there = (
                        tuple(slice(b - o, e - o) for (b, e), o in zip(both, origin, strict=True))
                        for origin in ([b for b, _ in wanted], first)
                    )
                    out[here] = held[there]
            return out

        if isinstance(sharding, UnevenSharding):
            return sharding.make_array(assemble)
        return jax.make_array_from_callback(like.shape, sharding, assemble)

    leaves, tree = jax.tree.flatten(shapes)
    laid = map(read, range(len(leaves)), leaves, jax.tree.leaves(shardings))
    return jax.tree.unflatten(tree, laid)
