/*!
 * \file numbers.cuh
 * \brief MXNet's element types in kernels, and the types of their sums.
 */
#pragma once

#include "portable.cuh"

namespace tofu::cuda {

/*! \brief The same bits as another type. */
template <typename To, typename From>
TOFU_DEVICE To BitsAs(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are neither lost nor made up");
  To to;
  CopyBytes(&to, &from, sizeof(To));
  return to;
}

/*! \brief Convert a float to half precision, rounded to nearest even. */
TOFU_DEVICE unsigned short HalfBits(float value) {  // NOLINT(runtime/int)
#ifdef __CUDACC__
  unsigned short bits;  // NOLINT(runtime/int)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  constexpr unsigned kInfinity = 0x7f800000u;
  constexpr unsigned kTooLarge = 0x477ff000u;     // rounds to infinity from here on
  constexpr unsigned kFirstNormal = 0x38800000u;  // 2^-14
  const unsigned all = BitsAs<unsigned>(value);
  const unsigned sign = (all >> 16) & 0x8000u;
  const unsigned bits = all & 0x7fffffffu;
  unsigned half;
  if (bits > kInfinity) {
    half = 0x7fffu;
  } else if (bits >= kTooLarge) {
    half = 0x7c00u;
  } else if (bits < kFirstNormal) {
    // Adding 1/2 aligns the last bit with the last bit of a subnormal half.
    half = BitsAs<unsigned>(BitsAs<float>(bits) + 0.5f) - BitsAs<unsigned>(0.5f);
  } else {
    half = (bits - ((127u - 15u) << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  }
  return static_cast<unsigned short>(sign | half);  // NOLINT(runtime/int)
#endif
}

TOFU_DEVICE float HalfValue(unsigned short bits) {  // NOLINT(runtime/int)
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const unsigned sign = (bits & 0x8000u) << 16;
  const unsigned magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return BitsAs<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // As a float, the exponent is too small by 112, also for subnormal numbers.
  const float value = BitsAs<float>(magnitude << 13) * BitsAs<float>((127u + 112u) << 23);
  return BitsAs<float>(sign | BitsAs<unsigned>(value));
#endif
}

/*! \brief IEEE half precision. Arithmetic is in float. */
struct Half {
  Half() = default;
  TOFU_DEVICE explicit Half(float value) : bits(HalfBits(value)) {}
  TOFU_DEVICE explicit operator float() const { return HalfValue(bits); }
  TOFU_DEVICE explicit operator double() const { return HalfValue(bits); }
  unsigned short bits;  // NOLINT(runtime/int)
};

/*! \brief The upper half of a float, truncated as in MXNet. */
struct Bfloat16 {
  Bfloat16() = default;
  TOFU_DEVICE explicit Bfloat16(float value)
      : bits(static_cast<unsigned short>(BitsAs<unsigned>(value) >> 16)) {}  // NOLINT
  TOFU_DEVICE explicit operator float() const {
    return BitsAs<float>(static_cast<unsigned>(bits) << 16);
  }
  unsigned short bits;  // NOLINT(runtime/int)
};

/*! \brief The type of arithmetic on elements of type T. */
template <typename T>
struct SumType {
  typedef T type;
};
template <>
struct SumType<Half> {
  typedef float type;
};
template <>
struct SumType<Bfloat16> {
  typedef float type;
};

}  // namespace tofu::cuda

/*! \brief A kernel file is compiled once per element type. TOFU_TYPE is a name below, and a suffix
 * of entry points: tofu_multi_fetch_float32. */
#define TOFU_JOIN_NAMES(name, type) name##_##type
#define TOFU_TYPED_NAME(name, type) TOFU_JOIN_NAMES(name, type)
#define TOFU_TYPED(name) TOFU_TYPED_NAME(name, TOFU_TYPE)
#define TOFU_ELEMENT TOFU_TYPED_NAME(tofu::cuda::Element, TOFU_TYPE)

namespace tofu::cuda {

typedef float Element_float32;
typedef double Element_float64;
typedef Half Element_float16;
typedef Bfloat16 Element_bfloat16;
typedef unsigned char Element_uint8;
typedef signed char Element_int8;
typedef int Element_int32;
typedef Index Element_int64;
typedef bool Element_bool;

}  // namespace tofu::cuda
