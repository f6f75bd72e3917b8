"""Cases for operators that draw random numbers.

The numbers must be within ten standard deviations of the mean. Some kernels also return the noise from which they
computed the numbers. Then the same numbers must follow from the noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tdl_ops.mxnet.case import Case
from tofu.verification.comparison import Relation
from tofu.verification.kernel import Array
from tofu.verification.numbers import Fixed, Given, Numbers

# For each distribution its parameters, and mean and deviation as a function of them. Ranges of varying parameters are
# disjoint.
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

# The same for the NumPy interface.
NUMPY: dict[str, tuple[dict[str, float], Moments]] = {
    "uniform": ({"low": 3.0, "high": 4.0}, DISTRIBUTIONS["uniform"][1]),
    "normal": ({"loc": 3.0, "scale": 0.01}, DISTRIBUTIONS["normal"][1]),
    "gamma": ({"shape": 1e4, "scale": 3e-4}, DISTRIBUTIONS["gamma"][1]),
    "gumbel": ({"loc": 3.0, "scale": 0.01}, lambda loc, scale: (loc + 0.577 * scale, 1.28 * scale)),
    "logistic": ({"loc": 3.0, "scale": 0.01}, lambda loc, scale: (loc, 1.81 * scale)),
    "exponential": ({"scale": 0.5}, lambda scale: (5 * scale, 0.5 * scale)),
    "rayleigh": ({"scale": 0.5}, lambda scale: (5 * scale, 0.5 * scale)),
    "weibull": ({"a": 20.0}, lambda a: (30 ** (1 / a) / 2, 30 ** (1 / a) / 16)),
    "pareto": ({"a": 100.0}, lambda a: (np.expm1(30 / a) / 2, np.expm1(30 / a) / 16)),
    "powerd": ({"a": 100.0}, lambda a: (1 - 10 / a, 1 / a)),
}


@dataclass(frozen=True)
class Within:
    """A check that random numbers are within ten standard deviations of the mean.

    `attributes` has the distribution's parameters. If it is empty, the inputs are the parameters.
    """

    distribution: str
    attributes: tuple[float, ...] = ()

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
        (drawn,) = outputs
        _, moments = DISTRIBUTIONS[self.distribution]
        mean, deviation = (np.asarray(moment, float) for moment in moments(*(self.attributes or inputs)))
        low, high = (
            bound.reshape(bound.shape + (1,) * (drawn.ndim - bound.ndim))
            for bound in (mean - 10 * deviation, mean + 10 * deviation)
        )
        return [np.clip(drawn, low, high).astype(drawn.dtype)]


def _relate(
    op: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[Given],
    relation: Relation,
    wrt: tuple[int, ...] | None = None,
) -> Case:
    return Case(op, attributes, inputs, wrt, relations={op: relation})


def _list_draws(name: str, given: dict[str, float]) -> list[Case]:
    fixed = Within(name, tuple(given.values()))
    varied = [Fixed(tuple(value * share for share in (0.25, 0.5, 1.0)), "float32") for value in given.values()]
    return [
        _relate(f"_random_{name}", {**given, "shape": (5, 7)}, [], fixed, ()),
        _relate(f"_random_{name}_like", given, [(5, 7)], fixed, ()),
        _relate(f"_sample_{name}", {"shape": (5, 2)}, varied, Within(name), ()),
    ]


# Functions that compute a drawn number from the noise and the parameters.
FROM_NOISE: dict[str, Callable[..., Array]] = {
    **dict.fromkeys(("normal", "gumbel", "logistic"), lambda noise, loc, scale: loc + scale * noise),
    **dict.fromkeys(("exponential", "rayleigh"), lambda noise, scale: scale * noise),
}
# The same for parameters that are attributes. The noise is then uniform between 0 and 1.
FROM_CHANCE: dict[str, Callable[..., Array]] = {
    "exponential": lambda chance, scale: -scale * np.log(chance),
    "weibull": lambda chance, a: (-np.log(chance)) ** (1 / a),
    "pareto": lambda chance, a: np.expm1(-np.log(chance) / a),
}
# Derivatives of a drawn number by the parameter, for operators whose second output is the derivative.
DERIVATIVES: dict[str, Callable[..., Array]] = {
    "weibull": lambda drawn, a: -drawn * np.log(drawn) / a,
    "pareto": lambda drawn, a: -(drawn + 1) * np.log(drawn + 1) / a,
}


@dataclass(frozen=True)
class Drawn:
    """A check that random numbers are within ten standard deviations, for MXNet's NumPy operators.

    `attributes` has the distribution's parameters, or None for parameters that are inputs.
    """

    distribution: str
    attributes: tuple[float | None, ...]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
        drawn, *saved = outputs
        given = iter(inputs)
        parameters = [next(given) if attribute is None else attribute for attribute in self.attributes]
        mean, deviation = NUMPY[self.distribution][1](*parameters)
        within = np.clip(drawn, mean - 10 * deviation, mean + 10 * deviation)
        if not saved:
            return [within]
        if self.distribution in DERIVATIVES and None in self.attributes:
            return [within, DERIVATIVES[self.distribution](np.maximum(drawn, 1e-30), *parameters)]
        made = FROM_CHANCE if self.distribution in FROM_CHANCE and None not in self.attributes else FROM_NOISE
        noise = np.clip(saved[0], 0, 1) if made is FROM_CHANCE else saved[0]
        return [np.where(within == drawn, made[self.distribution](noise, *parameters), within), noise]


def _take_certain(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    drawn, logarithm = outputs
    certain = inputs[0].argmax(-1).reshape(drawn.shape[:1] + (1,) * (drawn.ndim - 1))
    return [np.broadcast_to(certain, drawn.shape), np.zeros_like(logarithm)]


def _take_class(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    drawn, _ = outputs
    classes = np.clip(drawn, 0, inputs[0].shape[-1] - 1)
    return [classes, np.log(np.take_along_axis(inputs[0], classes.astype(int), -1))]


def _take_truth(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    return [np.clip(np.rint(outputs[0]), 0, 1)]


def _take_one(inputs: Sequence[Array], outputs: Sequence[Array]) -> Sequence[Array]:
    return [np.ones_like(outputs[0])]


CERTAIN = Fixed(((0, 1, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0)), "float32")
CHANCES = Fixed(((0.2, 0.3, 0.1, 0.4), (0.25, 0.25, 0.3, 0.2), (0.1, 0.2, 0.3, 0.4)), "float32")
PARAMETERS = (Numbers(0.5, 1.5, (3, 1), "float32"), Numbers(0.5, 1.5, (5, 1, 7), "float32"))
BATCHED = (Numbers(0.5, 1.5, (3, 1), "float32"), Numbers(1.5, 2.5, (1, 7), "float32"))
BERNOULLI = {"logit": None, "is_logit": False, "size": (5, 7), "dtype": "float32"}
INTEGERS = {"low": 3, "high": 5, "shape": (5, 7), "dtype": "int32"}

CASES = [
    *(case for name, (given, _) in DISTRIBUTIONS.items() if name != "randint" for case in _list_draws(name, given)),
    *(
        _relate(f"_npi_{name}", {**given, "size": (5, 7)}, [], Drawn(name, tuple(given.values())), ())
        for name, (given, _) in NUMPY.items()
    ),
    *(
        _relate(
            f"_npi_{name}",
            {**dict.fromkeys(given), "size": (5, 3, 7)},
            PARAMETERS[: len(given)],
            Drawn(name, (None,) * len(given)),
        )
        for name, (given, _) in NUMPY.items()
        if name not in ("uniform", "gamma")  # uniform and gamma have no gradient
    ),
    _relate("_npi_normal", {"loc": 3.0, "scale": None, "size": None}, PARAMETERS[1:], Drawn("normal", (3.0, None))),
    *(
        _relate(f"_npi_{name}_n", {**dict.fromkeys(NUMPY[name][0]), "size": (5,)}, BATCHED, Drawn(name, (None, None)))
        for name in ("normal", "uniform")
    ),
    *(
        _relate("_npi_bernoulli", {"prob": chance, **BERNOULLI}, [], relation, ())
        for chance, relation in ((1.0, _take_one), (0.25, _take_truth))
    ),
    _relate("_random_randint", INTEGERS, [], Within("randint", (3, 5)), ()),
    *(
        _relate("_sample_multinomial", {"shape": shape, "get_prob": True}, [CERTAIN], _take_certain, ())
        for shape in ((), (5, 2))
    ),
    _relate("_sample_multinomial", {"shape": (5,), "get_prob": True}, [CHANCES], _take_class),
]
