/*!
 * \file vectorised.h
 * \brief Functions in the vectors of the processor that they run on.
 */
#ifndef TOFU_CORE_BASE_VECTORISED_H_
#define TOFU_CORE_BASE_VECTORISED_H_

// One version of a function for each kind of vectors; the processor chooses when the library is
// loaded.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define TOFU_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TOFU_VECTORISED
#endif

#endif  // TOFU_CORE_BASE_VECTORISED_H_
