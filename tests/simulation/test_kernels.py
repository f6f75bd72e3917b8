import numpy as np
import pytest

from tofu.simulation import read_machine
from tofu.simulation.fit import Sample, fit, fit_kernels
from tofu.simulation.kernels import name_kind

RATES = read_machine("8xV100").rates


def test_large_products_run_at_the_speed_of_the_arithmetic():
    operations = 2 * 8192**3
    seconds = RATES.contract(operations, 8192**2, 8192, "float32")
    assert operations / seconds == pytest.approx(RATES.contracted["float32"], rel=0.1)


@pytest.mark.parametrize("width", [16, 256])
def test_small_products_lose_efficiency(width):
    def speed(n):
        return 2 * n**3 / RATES.contract(2 * n**3, n**2, n, "float32")

    assert speed(width) < speed(4 * width)


def test_kernels_are_named_after_word_attributes():
    assert name_kind("Pooling", {"pool_type": "max", "kernel": "(2, 2)", "stride": "(1, 1)"}) == "Pooling(max)"
    assert name_kind("dot", {}) == "dot"


def make_samples(rng, count=40):
    for _ in range(count):
        contracted, other, size = (int(10 ** rng.uniform(3, 8)) for _ in range(3))
        far = max(0, size - 10**6)
        yield Sample(
            "op", contracted, other, size, 2e-6 + 1e-11 * contracted + 3e-10 * other + 5e-11 * size + 2e-10 * far
        )


def test_the_fit_recovers_rates():
    found = fit(list(make_samples(np.random.RandomState(0))), 10**6)
    assert found.call == pytest.approx(2e-6, rel=1e-3)
    assert (found.contracted, found.other) == pytest.approx((1e-11, 3e-10), rel=1e-3)
    assert (found.byte, found.far_byte) == pytest.approx((5e-11, 2e-10), rel=1e-3)
    assert found.error < 1e-3


def test_the_fit_ignores_outliers():
    samples = list(make_samples(np.random.RandomState(1)))
    expected = fit(samples, 10**6)
    odd = [sample._replace(seconds=100 * sample.seconds) for sample in samples[:5]]
    found = fit([*samples[5:], *odd], 10**6)
    assert min(found.call, found.contracted, found.other, found.byte, found.far_byte) >= 0
    assert found.other == pytest.approx(expected.other, rel=0.3)


def test_kinds_of_kernels_are_fitted_separately():
    made = [Sample(kind, 0, 0, n, speed * n) for kind, speed in (("a", 1e-9), ("b", 3e-9)) for n in (10**4, 10**5)]
    found = fit_kernels(made, 10**9)
    assert (found["a"].byte, found["b"].byte) == pytest.approx((1e-9, 3e-9))
