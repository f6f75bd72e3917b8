from __future__ import annotations

import random

import mxnet as mx

from tests.campaigns.fuzz.chains import grow_chain
from tests.campaigns.fuzz.layers import add_layer, grow_layers, grow_windows, head
from tests.campaigns.fuzz.operators import add_operator, bring, cases_by_operator, is_alone, list_signatures
from tests.campaigns.fuzz.recurrences import grow_recurrence
from tests.campaigns.fuzz.sample import FuzzSample, Growth, Shape

KINDS = {"operators": 40, "layers": 10, "windows": 10, "chains": 22, "recurrences": 18}
FOCUSES = {"all": tuple(KINDS), "chains": ("chains", "recurrences"), **{kind: (kind,) for kind in KINDS}}
MANY_WORKERS, SOME_WORKERS = (8, 8, 12), (2, 3, 4, 5, 6, 7, 8, 12)


def choose_kind(seed: int, focus: str) -> str:
    kinds = FOCUSES[focus]
    return random.Random(f"{seed} kind").choices(kinds, [KINDS[kind] for kind in kinds])[0]


def choose_workers(seed: int, kind: str) -> int:
    rng = random.Random(f"{seed} workers")
    return rng.choice(MANY_WORKERS if kind in ("chains", "recurrences") and rng.random() < 0.75 else SOME_WORKERS)


def make_sample(seed: int, kind: str) -> FuzzSample:
    rng = random.Random(f"{seed} bits")
    if kind == "chains":
        return _finish(Growth(seed, bits=rng.choice((2, 3, 8))), grow_chain)
    if kind == "recurrences":
        return _finish(Growth(seed, bits=rng.choice((3, 20))), grow_recurrence)
    makers = {"layers": grow_layers, "windows": grow_windows, "operators": _grow_operators}
    return _finish(Growth(seed, bits=rng.choice((10, 20))), makers[kind])


def _finish(grow: Growth, make) -> FuzzSample:
    with mx.name.NameManager():  # numbers unnamed operators from the same number on
        return grow.finish(make(grow))


def _grow_operators(grow: Growth) -> mx.sym.Symbol:
    signatures = list_signatures()
    first, number = signatures[grow.seed % len(signatures)]  # each operator comes first for some seed
    for _ in range(grow.rng.randint(1, 2)):
        shape = tuple(grow.rng.randint(2, 9) for _ in range(grow.rng.choice((1, 2, 3, 4))))
        grow.tensors.append((grow.parameter(*shape), shape))
    stands_alone = is_alone(first)
    chosen = [op for op in sorted(cases_by_operator()) if is_alone(op) == stands_alone]
    add_operator(grow, first, number)
    shown = grow.tensors[-1]  # shares the first operator's, unless it is separate
    for _ in range(grow.rng.randint(2, 13)):
        if stands_alone or grow.rng.random() < 0.7:
            add_operator(grow, grow.rng.choice(chosen))
        else:
            add_layer(grow)
    wide = mx.sym.broadcast_mul(bring(grow, (17, 9), -1, 1), grow.data(17, 9))
    others = grow.rng.choices(grow.tensors, k=grow.rng.randint(0, 3))
    heads = [random_head(grow, *tensor) for tensor in (shown, *others)]
    return mx.sym.Group([wide, *heads])


def random_head(grow: Growth, x: mx.sym.Symbol, shape: Shape) -> mx.sym.Symbol:
    kind = grow.rng.random()
    return head(grow, x, shape) if kind < 0.4 else mx.sym.BlockGrad(x) if kind < 0.5 else x
