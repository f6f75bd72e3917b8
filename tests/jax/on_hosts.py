"""Program of each of several processes: python -m tests.jax.on_hosts PROCESS COUNT DEVICES PORT SCENARIOS

A scenario is a function here and its arguments, which are words. Its outcome is printed as a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tofu.jax
from tests.models.jax.plain import STEPS
from tofu.errors import TofuError
from tofu.jax import UnevenArray
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.versions import in_precision
from tofu.jax.planning import plan_step, read_settings

EXAMPLES = Path(__file__).parents[2] / "examples/jax"


def load_example(name):
    """Return the module of an example, a state and three batches."""
    module = import_example(name)
    state = module.make_state(jax.random.key(2))
    if name == "mlp":
        return module, state, [module.draw_batch(key) for key in jax.random.split(jax.random.key(1), 3)]
    return module, state, list(module.draw_batches(3))


def import_example(name):
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return import_module(name)


def find_distance(ours, theirs):
    """Of the shards that this process has from the same cells of a whole array, relative to its largest number."""
    theirs = np.asarray(theirs)
    largest = max(float(np.max(np.abs(theirs))), 1e-30)
    parts = [np.max(np.abs(np.asarray(s.data) - theirs[s.index]), initial=0) for s in ours.addressable_shards]
    return float(max(parts)) / largest


def train(name, feed):
    """An example, of which each process trains all on a device of its own beside."""
    with patch.object(import_example(name), "LAYERS", 1, create=True):  # of a transformer, half as much to compile
        return train_on_all(name, feed)


def train_on_all(name, feed):
    module, state, batches = load_example(name)
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args())
    whole, losses, distances = jax.jit(module.step), [], []
    ours = made.place(state)
    for batch in batches:
        state, expected = whole(state, batch)
        ours, loss = made(ours, made.place_part(take_part(batch)) if feed == "parts" else batch)
        losses.append((float(loss), float(expected)))
        distances.append(find_distance(loss, expected))
    first = distances[0]
    distances += map(find_distance, jax.tree.leaves(ours), jax.tree.leaves(state))
    held = sum(s.data.nbytes for leaf in jax.tree.leaves(ours) for s in leaf.addressable_shards)
    return {
        "plan": digest(made.plan),
        "factors": made.plan.factors,
        "level_bytes": made.plan.level_bytes,
        "losses": losses,
        "distance": max(distances),
        "first_distance": first,
        "held_bytes": held,
        "whole_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(state)),
    }


def train_steps(replicate):
    """The steps of the other tests, with loops, borders of windows and random keys; once with a loss over the same state beside."""
    distances = {}
    for name in STEPS:
        step, state, data, wanted = train_alone(name)
        made = tofu.jax.partition(step, jax.device_count(), (state, data), replicate=replicate)
        ours, found = made.place(state), []
        if replicate == "small":
            beside = made.also(lambda state, data, step=step: step(state, data)[1], (state, data))
            found.append(find_distance(beside(ours, data), wanted[0][1]))
        for _, expected in wanted:
            ours, loss = made(ours, data)
            found.append(find_distance(loss, expected))
        found += map(find_distance, jax.tree.leaves(ours), jax.tree.leaves(wanted[-1][0]))
        distances[name] = max(found)
    return distances


@cache
def train_alone(name):
    """A step, its state and data, and the states and losses of three steps on one device."""
    step, state, data = STEPS[name](jnp.float64)
    whole, wanted = jax.jit(step), []
    for _ in range(3):
        wanted.append(whole(wanted[-1][0] if wanted else state, data))
    return step, state, data, wanted


def count(name):
    """The bytes that a compiled step moves, and those that its plan counts; of them those between processes."""
    module = import_example(name)
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args())
    text = made.lower(*module.example_args()).compile().as_text()
    moved = count_traffic(text, jax.device_count(), jax.local_device_count())
    assert not moved.count["reduce-scatter"], "gloo's gives wrong sums now and then"
    return {
        "moved": [sum(moved.between.values()), moved.total],
        "planned": [made.plan.level_bytes[0], made.plan.communication_bytes],
        "between": made.host_bytes,
        "without_levels": find_alone(module).level_bytes[0],
    }


def find_alone(module):
    """The plan that has no levels: that of devices of one host."""
    return plan_step(read_step(module.step, module.example_args()), read_settings(jax.device_count(), {})).plan


def disagree(what):
    """What is said where process 1 plans otherwise, or has another batch, at once or after steps with parts of batches."""
    module, state, (batch, *_) = load_example("mlp")
    is_other = jax.process_index() == 1
    asked = {"replicate": "free"} if what == "plan" and is_other else {}
    made = tofu.jax.partition(module.step, jax.device_count(), module.example_args(), **asked)
    if what == "later batch":
        state, _ = made(made.place(state), made.place_part(take_part(batch)))
    if what in ("batch", "later batch") and is_other:
        batch = batch[0] + 1, batch[1]
    with pytest.raises(TofuError) as caught:
        made(state, batch)
    return [type(caught.value).__name__, str(caught.value), digest(made.plan)[:32]]


def misfeed():
    """What is said of parts that are none, and of what is given in their place. What each process has all of is lowered."""
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


def lay_out(columns):
    """Keys, scalars and numbers of Python's, arrays that lie otherwise on all devices, and parts that the plan has in another process. So
    many columns are split over 4 devices.
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
    distances = []
    for weight in (state["w"], jnp.asarray(state["w"]), elsewhere):
        for place in (
            lambda batch: batch,
            lambda batch: made.place(batch, 1),
            lambda batch: made.place_part((take_part(x), key)),
        ):
            given = {"w": weight, "count": 0}
            for start in (given, made.place(given)):
                after, total = made(start, place((x, key)))
                assert isinstance(after["w"], UnevenArray) == (uneven == "free")
                laid = after["w"].parts if uneven == "free" else after["w"].sharding
                assert laid == made.shardings[0]["w"]
                assert int(after["count"]) == 1
                distances += [find_distance(after["w"], expected[0]["w"]), find_distance(total, expected[1])]
    assert made.memory_report(compile=True).compiled is not None
    by_rows = tofu.jax.partition(step, jax.device_count(), (state, (x, key)), hints={"batch/0": 0})
    with patch.object(jax, "device_put", side_effect=AssertionError("parts move that are where they are read")):
        by_rows.place_part((take_part(x), key))
    return max(distances)


def digest(plan):
    """Of all that a plan says."""
    return hashlib.sha256(plan.to_json().encode()).hexdigest()


def take_part(batch):
    """The rows of this process."""
    count, own = jax.process_count(), jax.process_index()
    return jax.tree.map(lambda x: np.split(np.asarray(x), count)[own], batch)


def run(name, arguments, double):
    """The outcome of a scenario."""
    with in_precision(double):
        try:
            return {"returned": globals()[name](*arguments)}
        except BaseException:  # pytest's failures are no Exception
            return {"failed": traceback.format_exc()}


def main():
    """The scenarios in their order."""
    process, count, devices, port, scenarios = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(process))
    for scenario in json.loads(scenarios):
        print(json.dumps(run(**scenario)), flush=True)


if __name__ == "__main__":
    main()
