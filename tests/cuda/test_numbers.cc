/*!
 * \file test_numbers.cc
 * \brief Half precision as the emulation computes it: every number, and what lies between two.
 */
#include <cmath>
#include <cstdint>
#include <limits>

#include "../core/check.h"
#include "cuda/numbers.cuh"

namespace {

using namespace tofu::cuda;  // NOLINT(build/namespaces)

void TestHalves() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = HalfValue(static_cast<uint16_t>(bits));
    const bool is_number = (bits & 0x7fffu) <= 0x7c00u;
    CHECK(std::isnan(value) == !is_number);
    if (!is_number) continue;
    CHECK(HalfBits(value) == bits);
    const int exponent = static_cast<int>((bits >> 10) & 31u);
    const double fraction = bits & 1023u;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    CHECK(value == static_cast<float>(bits & 0x8000u ? -magnitude : magnitude));
    const float next = HalfValue(static_cast<uint16_t>(bits + 1));
    if (exponent == 30 && fraction == 1023) continue;
    const float middle = value + (next - value) / 2;
    CHECK(HalfBits(middle) == bits + (bits & 1u));  // ties go to the even one
    CHECK(HalfBits(std::nextafter(middle, value)) == bits);
    CHECK(HalfBits(std::nextafter(middle, next)) == bits + 1);
  }
  CHECK(HalfBits(65519.996f) == 0x7bff);
  CHECK(HalfBits(65520.0f) == 0x7c00);
  CHECK(HalfBits(1e30f) == 0x7c00);
  CHECK(std::isnan(HalfValue(HalfBits(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace

int main() {
  TestHalves();
  return tofu_test::Finish("numbers");
}
