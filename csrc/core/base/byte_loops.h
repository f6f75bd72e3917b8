/*!
 * \file byte_loops.h
 * \brief Vectorised loops over rows of byte counts, the inner loops of elimination and the bounds.
 */
#pragma once

#include <cstddef>
#include <cstdint>

// Compiles a function for several vector widths. The loader picks the one that the processor has.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define TOFU_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TOFU_VECTORISED
#endif

namespace tofu {

/*! \brief least[i] = min(least[i], base + row[i]). */
void LowerTo(int64_t base, const int64_t* row, size_t count, int64_t* least);

/*! \brief least[i] = min(least[i], a[i] + b[i]). */
void LowerToSum(const int64_t* a, const int64_t* b, size_t count, int64_t* least);

/*! \brief The least a[i] + b[i], or the largest int64 if `count` is 0. */
int64_t LeastSum(const int64_t* a, const int64_t* b, size_t count);

/*! \brief The least a[i] - b[i], or the largest int64 if `count` is 0. */
int64_t LeastDifference(const int64_t* a, const int64_t* b, size_t count);

/*! \brief The sum over i of the products of rows[0][i], rows[1][i], ... */
int64_t SumProducts(const int64_t* const* rows, size_t num_rows, size_t count);

}  // namespace tofu
