"""Random numbers. What is drawn cannot be compared, but it lies within ten deviations of the mean of its own parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tofu.verify.case import Case, Fixed, Numbers
from tofu.verify.kernels import Array

# For each distribution its parameters, and mean and deviation as a function of them. Where parameters vary, the ranges are apart.
Pair: TypeAlias = "tuple[Array | float, Array | float]"
Moments = Callable[..., Pair]
DISTRIBUTIONS: dict[str, tuple[dict[str, float], Moments]] = {
    "uniform": ({"low": 3.0, "high": 4.0}, lambda low, high: ((low + high) / 2, (high - low) / 20)),
    "normal": ({"loc": 3.0, "scale": 0.01}, lambda loc, scale: (loc, scale)),
    "gamma": ({"alpha": 1e4, "beta": 3e-4}, lambda alpha, beta: (alpha * beta, np.sqrt(alpha) * beta)),
    "randint": ({"low": 3, "high": 5}, lambda low, high: ((low + high) / 2, (high - low) / 10)),
    "exponential": ({"lam": 2.0}, lambda lam: (5 / lam, 0.5 / lam)),
    "poisson": ({"lam": 1e8}, lambda lam: (lam, np.sqrt(lam))),
    "negative_binomial": ({"k": 10**6, "p": 0.5}, lambda k, p: (k * (1 - p) / p, np.sqrt(k * (1 - p)) / p)),
    "generalized_negative_binomial": (
        {"mu": 1e6, "alpha": 1e-8},
        lambda mu, alpha: (mu, np.sqrt(mu + alpha * mu * mu)),
    ),
}

# The same of the NumPy interface.
NUMPY: dict[str, tuple[dict[str, float], Moments]] = {
    "uniform": ({"low": 3.0, "high": 4.0}, DISTRIBUTIONS["uniform"][1]),
    "normal": ({"loc": 3.0, "scale": 0.01}, DISTRIBUTIONS["normal"][1]),
    "gamma": ({"shape": 1e4, "scale": 3e-4}, DISTRIBUTIONS["gamma"][1]),
    "gumbel": ({"loc": 3.0, "scale": 0.01}, lambda loc, scale: (loc + 0.577 * scale, 1.28 * scale)),
    "logistic": ({"loc": 3.0, "scale": 0.01}, lambda loc, scale: (loc, 1.81 * scale)),
    "exponential": ({"scale": 0.5}, lambda scale: (5 * scale, 0.5 * scale)),
    "rayleigh": ({"scale": 0.5}, lambda scale: (1.25 * scale, 0.13 * scale)),
    "weibull": ({"a": 20.0}, lambda a: (1.0, 3 / a)),
    "pareto": ({"a": 100.0}, lambda a: (10 / a, 1 / a)),
    "powerd": ({"a": 100.0}, lambda a: (1 - 10 / a, 1 / a)),
}
SPREADS = DISTRIBUTIONS | {f"_npi_{name}": spread for name, spread in NUMPY.items()}


@dataclass(frozen=True)
class Within:
    """What is drawn, moved to within ten deviations of the mean of its parameters: attributes, or else the inputs."""

    distribution: str
    attributes: tuple[float, ...] = ()

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
        """The relation. The dimensions of parameters come first."""
        (drawn,) = outputs
        _, moments = SPREADS[self.distribution]
        mean, deviation = (np.asarray(moment, float) for moment in moments(*(self.attributes or inputs)))
        low, high = (
            bound.reshape(bound.shape + (1,) * (drawn.ndim - bound.ndim))
            for bound in (mean - 10 * deviation, mean + 10 * deviation)
        )
        return [np.clip(drawn, low, high).astype(drawn.dtype)]


def _list_draws(name: str, given: dict[str, float]) -> list[Case]:
    """The operator with its parameters as attributes, the one shaped like a tensor, and the one with parameters in tensors."""
    fixed = Within(name, tuple(given.values()))
    varied = [Fixed(tuple(value * share for share in (0.25, 0.5, 1.0)), "float32") for value in given.values()]
    plain, like, sampled = f"_random_{name}", f"_random_{name}_like", f"_sample_{name}"
    return [
        Case(plain, {**given, "shape": (5, 7)}, [], (), relations={plain: fixed}),
        Case(like, given, [(5, 7)], (), relations={like: fixed}),
        Case(sampled, {"shape": (5, 2)}, varied, (), relations={sampled: Within(name)}),
    ]


@dataclass(frozen=True)
class FirstWithin(Within):
    """The same for the first output, where the second is what it was made from."""

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
        """The relation."""
        return [*super().__call__(inputs, outputs[:1]), *outputs[1:]]


def _take_certain(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    """The only class that is possible, and the logarithm of its probability."""
    drawn, logarithm = outputs
    certain = inputs[0].argmax(-1).reshape(drawn.shape[:1] + (1,) * (drawn.ndim - 1))
    return [np.broadcast_to(certain, drawn.shape), np.zeros_like(logarithm)]


def _take_drawn(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    """Whatever was drawn: the gradient, which follows from it, is what is verified."""
    return outputs


CERTAIN = Fixed(((0, 1, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0)), "float32")
CHANCES = Fixed(((0.2, 0.3, 0.1, 0.4), (0.25, 0.25, 0.3, 0.2), (0.1, 0.2, 0.3, 0.4)), "float32")
PARAMETERS = (Numbers(0.5, 1.5, (3, 1), "float32"), Numbers(0.5, 1.5, (5, 1, 7), "float32"))
BATCHED = (Numbers(0.5, 1.5, (3, 1), "float32"), Numbers(1.5, 2.5, (1, 7), "float32"))
INTEGERS = {"low": 3, "high": 5, "shape": (5, 7), "dtype": "int32"}

CASES = [
    *(case for name, (given, _) in DISTRIBUTIONS.items() if name != "randint" for case in _list_draws(name, given)),
    *(
        Case(
            f"_npi_{name}",
            {**given, "size": (5, 7)},
            [],
            (),
            relations={f"_npi_{name}": FirstWithin(f"_npi_{name}", tuple(given.values()))},
        )
        for name, (given, _) in NUMPY.items()
    ),
    *(
        Case(
            f"_npi_{name}",
            {**dict.fromkeys(NUMPY[name][0]), "size": (5, 3, 7)},
            PARAMETERS[: len(NUMPY[name][0])],
            relations={f"_npi_{name}": _take_drawn},
        )
        for name in NUMPY
        if name not in ("uniform", "gamma")  # without gradients
    ),
    Case(
        "_npi_normal", {"loc": 3.0, "scale": None, "size": None}, PARAMETERS[1:], relations={"_npi_normal": _take_drawn}
    ),
    *(
        Case(
            f"_npi_{name}_n",
            {**dict.fromkeys(NUMPY[name][0]), "size": (5,)},
            BATCHED,
            relations={f"_npi_{name}_n": _take_drawn},
        )
        for name in ("normal", "uniform")
    ),
    Case("_npi_bernoulli", {"prob": 1.0, "logit": None, "is_logit": False, "size": (5, 7), "dtype": "float32"}, [], ()),
    Case("_random_randint", INTEGERS, [], (), relations={"_random_randint": Within("randint", (3, 5))}),
    *(
        Case(
            "_sample_multinomial",
            {"shape": shape, "get_prob": True},
            [CERTAIN],
            (),
            relations={"_sample_multinomial": _take_certain},
        )
        for shape in ((), (5, 2))
    ),
    Case(
        "_sample_multinomial",
        {"shape": (5,), "get_prob": True},
        [CHANCES],
        relations={"_sample_multinomial": _take_drawn},
    ),
]
