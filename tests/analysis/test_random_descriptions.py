"""Every accepted strategy of a random description gives the whole result."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.analysis.described_cases import DescribedCase
from tofu.analysis import analyse
from tofu.errors import DescriptionError
from tofu.tdl import Sum, describe, exp, interpret, merge, scatter, where

OUTER, INNER = ("i", "j"), ("k", "q")
VARIABLES = OUTER + INNER


@dataclass(frozen=True)
class IndexRecipe:
    kind: str
    first: str
    second: str
    stride: int
    second_stride: int
    offset: int

    def build(self, names, extent):
        a, b = names[self.first], names[self.second]
        return {
            "bare": lambda: a,
            "affine": lambda: self.stride * a + self.second_stride * b + self.offset,
            "reverse": lambda: extent - 1 - a,
            "merge": lambda: merge(a, b),
            "half": lambda: a + extent // 2,
            "constant": lambda: 0,
        }[self.kind]()

    def needed_extent(self, extents):
        a, b = extents[self.first], extents[self.second]
        return {
            "bare": a,
            "affine": self.stride * (a - 1) + self.second_stride * (b - 1) + self.offset + 1,
            "reverse": a,
            "merge": a * b,
            "half": 2 * a,
            "constant": 1,
        }[self.kind]


VALUES = {
    "product": lambda x, a, b, c: a * b,
    "sum": lambda x, a, b, c: a + b,
    "three": lambda x, a, b, c: a * b - c / 2,
    "nonlinear": lambda x, a, b, c: exp(a) * b,
    "choice": lambda x, a, b, c: where(c > 0, a, 0) * b,
    "size": lambda x, a, b, c: a / x.shape[0],
}


@dataclass(frozen=True)
class Recipe:
    """Recipe of a random description: a sum of expressions, perhaps combined with elements outside of the sum."""

    accesses: tuple[tuple[IndexRecipe, ...], ...]
    inside: str
    outside: str | None
    summed: tuple[str, ...]
    coordinate: IndexRecipe | None

    def describe(self):
        extents = {f"n{name}": name for name in VARIABLES}
        return describe(
            lambda x, y, *, ni, nj, nk, nq: self._output(x, y, (ni, nj, nk, nq)), ("random",), bound=extents
        )

    def _output(self, x, y, numbers):
        extents = dict(zip(VARIABLES, numbers, strict=True))

        def value(i, j):
            def body(*inner):
                return self._value(self.inside, x, y, {"i": i, "j": j, "q": 0, **dict(zip(INNER, inner, strict=False))})

            bodies = {("k",): lambda k: body(k), ("k", "q"): lambda k, q: body(k, q)}
            total = Sum(bodies[self.summed], extents={name: extents[name] for name in self.summed})
            return (
                self._value(self.outside, x, y, {"i": i, "j": j, "k": i, "q": j}, total) if self.outside else 2 * total
            )

        if self.coordinate is None:
            return lambda i, j: value(i, j)

        def cell(i, j):
            return self.coordinate.build({"i": i, "j": j, "k": j, "q": i}, x.shape[0]), i

        return scatter(lambda i, j: (cell(i, j), value(i, j)), extents={name: extents[name] for name in OUTER})

    def _value(self, form, x, y, names, total=None):
        elements = [
            tensor[tuple(index.build(names, tensor.shape[d]) for d, index in enumerate(access))]
            for tensor, access in zip((x, y, y), self.accesses, strict=True)
        ]
        if total is not None:
            elements[0] = total
        return VALUES[form](x, *elements)


names = st.permutations(VARIABLES).map(lambda order: order[:2])
kinds = st.sampled_from(["bare", "bare", "bare", "affine", "reverse", "merge", "half", "constant"])
offsets = st.sampled_from([0, 0, 0, 1, -1])
index_recipes = st.builds(
    lambda kind, pair, *numbers: IndexRecipe(kind, *pair, *numbers),
    kinds,
    names,
    st.integers(1, 3),
    st.integers(0, 2),
    offsets,
)
recipes = st.builds(
    Recipe,
    accesses=st.tuples(*[st.tuples(index_recipes, index_recipes)] * 3),
    inside=st.sampled_from(sorted(VALUES)),
    outside=st.none() | st.sampled_from(sorted(VALUES)),
    summed=st.sampled_from([("k",), ("k", "q")]),
    coordinate=st.none() | index_recipes,
)


def make_case(recipe, extents, slack):
    def shape(*accesses):
        needed = [max(access[d].needed_extent(extents) for access in accesses) for d in range(2)]
        return tuple(max(1, n) + more for n, more in zip(needed, slack, strict=True))

    inputs = [shape(recipe.accesses[0]), shape(*recipe.accesses[1:])]
    output = (extents["i"], extents["j"]) if recipe.coordinate is None else (6, extents["i"])
    attributes = {f"n{name}": extent for name, extent in extents.items()}
    return DescribedCase("random", recipe.describe(), inputs, [output], (), attributes)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    recipes, st.fixed_dictionaries({name: st.integers(1, 4) for name in VARIABLES}), st.tuples(*[offsets.map(abs)] * 2)
)
def test_accepted_strategies_give_the_whole_result(recipe, extents, slack):
    case = make_case(recipe, extents, slack)
    try:
        access = analyse(case.description, case.attributes, case.inputs, case.outputs)
    except DescriptionError:
        assume(False)
    (expected,) = interpret(case.description, case.attributes, case.random_inputs(), case.outputs)
    for (axis, extent), count in itertools.product(enumerate(access.extents), (2, 3)):
        if extent >= count:
            (got,) = case.run_split(access, axis, count)
            np.testing.assert_allclose(got, expected, err_msg=f"split by {access.axes[axis]}", atol=1e-9)
