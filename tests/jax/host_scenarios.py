"""Scenarios that several processes of `jax.distributed` run together."""

import hashlib
import json
import sys
import traceback
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tofu.jax
from tofu.errors import TofuError
from tofu.jax import UnevenArray
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.versions import in_precision
from tofu.jax.planning import plan_step, read_settings

EXAMPLES = Path(__file__).parents[2] / "examples/jax"


def load_example(name):
    module = import_example(name)
    state = module.make_state(jax.random.key(2))
    if name == "mlp":
        return module, state, [module.draw_batch(key) for key in jax.random.split(jax.random.key(1), 3)]
    return module, state, list(module.draw_batches(3))


def import_example(name):
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return import_module(name)


def find_error(ours, theirs):
    """Return the largest error of this process's shards, relative to the largest element."""
    theirs = np.asarray(theirs)
    largest = max(float(np.max(np.abs(theirs))), 1e-30)
    parts = [np.max(np.abs(np.asarray(s.data) - theirs[s.index]), initial=0) for s in ours.addressable_shards]
    return float(max(parts)) / largest


def train(name, feed):
    import_example(name).LAYERS = 1
    module, state, batches = load_example(name)
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args())
    whole, losses, errors = jax.jit(module.step), [], []
    ours = made.place(state)
    for batch in batches:
        state, expected = whole(state, batch)
        ours, loss = made(ours, made.place_part(take_rows(batch)) if feed == "parts" else batch)
        losses.append((float(loss), float(expected)))
        errors.append(find_error(loss, expected))
    first = errors[0]
    errors += map(find_error, jax.tree.leaves(ours), jax.tree.leaves(state))
    held = sum(s.data.nbytes for leaf in jax.tree.leaves(ours) for s in leaf.addressable_shards)
    return {
        "plan": hash_plan(made.plan),
        "factors": made.plan.factors,
        "level_bytes": made.plan.level_bytes,
        "losses": losses,
        "error": max(errors),
        "first_error": first,
        "held_bytes": held,
        "whole_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(state)),
    }


def count(name):
    """Return the bytes that a compiled step transfers and that its plan counts, between processes and in total."""
    module = import_example(name)
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args())
    text = made.lower(*module.example_args()).compile().as_text()
    moved = count_traffic(text, jax.device_count(), jax.local_device_count())
    assert not moved.count["reduce-scatter"], "gloo's gives wrong sums now and then"
    return {
        "moved": [sum(moved.between.values()), moved.total],
        "planned": [made.plan.level_bytes[0], made.plan.communication_bytes],
        "between": made.host_bytes,
        "without_levels": find_plan_without_levels(module).level_bytes[0],
    }


def find_plan_without_levels(module):
    return plan_step(read_step(module.step, module.example_args()), read_settings(jax.device_count(), {})).plan


def disagree(what):
    """Return the error if process 1 has another plan, or passes another batch in its second step."""
    module, state, (batch, *_) = load_example("mlp")
    is_other = jax.process_index() == 1
    asked = {"replicate": "free"} if what == "plan" and is_other else {}
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args(), **asked)
    if what == "later batch":
        state, _ = made(made.place(state), made.place_part(take_rows(batch)))
    if what == "later batch" and is_other:
        batch = batch[0] + 1, batch[1]
    with pytest.raises(TofuError) as caught:
        made(state, batch)
    return [type(caught.value).__name__, str(caught.value), hash_plan(made.plan)[:32]]


def misuse():
    module, state, (batch, *_) = load_example("mlp")
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args())
    for given in ((state, batch), jax.tree.map(np.asarray, (state, batch))):
        assert made.lower(*given).as_text() == made.lower(*module.example_args()).as_text()
    faults = []
    for wrong in (batch, (batch[0][:3], batch[1][:3]), batch[0]):
        with pytest.raises(TofuError) as caught:
            made.place_part(wrong)
        faults.append(str(caught.value))
    with pytest.raises(TofuError) as caught:
        tofu.jax.partition(module.step, jax.devices()[2 * (1 - jax.process_index()) :][:2], module.example_args())
    return [*faults, str(caught.value)]


def place_values(columns):
    """Return the largest error over all kinds of arguments: keys, numbers, arrays on other meshes, and parts.

    The state has a matrix of `columns` columns, for four devices.
    """
    columns, uneven = int(columns), "free" if int(columns) % 4 else "none"

    def step(state, batch):
        x, key = batch
        noise = jax.random.uniform(key, (8, 64), x.dtype)
        return {"w": state["w"] + x.T @ (x @ state["w"]), "count": state["count"] + 1}, (x + noise).sum(0)

    draw = np.random.default_rng(0)
    state, x, key = {"w": draw.normal(size=(64, columns)), "count": 0}, draw.normal(size=(8, 64)), jax.random.key(7)
    expected = jax.jit(step)(state, (x, key))
    asked = {"hints": {"state/w": 1, "batch/0": 1}, "uneven": uneven}
    made = tofu.jax.partition(step, jax.device_count(), (state, (x, key)), **asked)
    everywhere = Mesh(np.array(jax.devices()), "all")
    elsewhere = jax.make_array_from_callback(
        (64, columns), NamedSharding(everywhere, PartitionSpec("all")), lambda i: state["w"][i]
    )
    errors = []
    for weight in (state["w"], jnp.asarray(state["w"]), elsewhere):
        for place in (
            lambda batch: batch,
            lambda batch: made.place(batch, 1),
            lambda batch: made.place_part((take_rows(x), key)),
        ):
            given = {"w": weight, "count": 0}
            for start in (given, made.place(given)):
                after, total = made(start, place((x, key)))
                assert isinstance(after["w"], UnevenArray) == (uneven == "free")
                shardings = after["w"].parts if uneven == "free" else after["w"].sharding
                assert shardings == made.shardings[0]["w"]
                assert int(after["count"]) == 1
                errors += [find_error(after["w"], expected[0]["w"]), find_error(total, expected[1])]
    assert made.memory_report(compile=True).compiled is not None
    by_rows = tofu.jax.partition(step, jax.device_count(), (state, (x, key)), hints={"batch/0": 0})
    with patch.object(jax, "device_put", side_effect=AssertionError("parts move that are where they are read")):
        by_rows.place_part((take_rows(x), key))
    return max(errors)


def hash_plan(plan):
    return hashlib.sha256(plan.to_json().encode()).hexdigest()


def take_rows(batch):
    count, own = jax.process_count(), jax.process_index()
    return jax.tree.map(lambda x: np.split(np.asarray(x), count)[own], batch)


def run(name, arguments, double):
    with in_precision(double):
        try:
            return {"returned": globals()[name](*arguments)}
        except BaseException:  # pytest's failures are no Exception
            return {"failed": traceback.format_exc()}


def main():
    process, count, devices, port, scenarios = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(process))
    for scenario in json.loads(scenarios):
        print(json.dumps(run(**scenario)), flush=True)


if __name__ == "__main__":
    main()
