from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.shared.random_plans import Taken, random_plan
from tofu.pipeline import Partition
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM

Asked = dict[str, Any]
MOST_HINTS = 6
SEARCH_SECONDS = 0.2


def list_plans(default: Partition, seed: int, randoms: int) -> Iterator[tuple[str, Asked]]:
    """Yield the kind and the arguments of each plan: random plans, a plan with hints, unrolled RNNs, and one more."""
    rng = random.Random(f"{seed} plans")
    taken = Taken()  # each plan prefers strategies that earlier plans did not use
    for number in range(randoms):
        yield "random", {"plan": random_plan(default, seed * 64 + number, taken).to_json()}
    yield "hints", {"hints": _draw_hints(default, rng)}
    if any(operator.op == "RNN" for operator in default.graph.operators):
        yield "unrolled", {"unroll": "always"}
    others = {
        "hints": lambda: {"hints": _draw_hints(default, rng)},
        "edited": lambda: {"plan": _edit_plan(default, rng)},
        "saved": lambda: {"plan": default.plan.to_json()},
        "algorithm": lambda: {
            "algorithm": rng.choice([algorithm for algorithm in ALGORITHMS if algorithm != DEFAULT_ALGORITHM])
        },
        "memory limit": lambda: _limit_memory(default, rng),
        "topology": lambda: {"topology": _draw_topology(default, rng), "search_seconds": SEARCH_SECONDS},
    }
    kind = rng.choice(list(others))
    yield kind, others[kind]()


def _draw_hints(default: Partition, rng: random.Random) -> dict[str, Any]:
    plan = random_plan(default, rng.randrange(2**30))
    choices = {**plan.tensors, **plan.operators}
    names = rng.sample(sorted(choices), min(rng.randint(1, MOST_HINTS), len(choices)))
    return {name: list(choices[name]) for name in names}


def _edit_plan(default: Partition, rng: random.Random) -> str:
    edited = json.loads(default.plan.to_json())
    edited.pop("digest")
    other = random_plan(default, rng.randrange(2**30))
    for kind, choices in (("tensors", other.tensors), ("operators", other.operators)):
        common = [name for name in edited[kind] if name in choices]
        for name in rng.sample(common, min(rng.randint(0, MOST_HINTS), len(common))):
            edited[kind][name] = list(choices[name])
    return json.dumps(edited)


def _limit_memory(default: Partition, rng: random.Random) -> Asked:
    most = max(default.plan.worker_bytes)
    return {"memory_limit": int(most * rng.choice((0.8, 0.95, 1.0, 1.2, 2.0))), "search_seconds": SEARCH_SECONDS}


def _draw_topology(default: Partition, rng: random.Random) -> list[float]:
    return [rng.choice((1e9, 4e9, 2e10, 1e11)) for _ in default.plan.factors]
