/*!
 * \file draw_pairwise.h
 * \brief Random pairwise problems, small enough to be solved by elimination.
 */
#ifndef TOFU_TESTS_CORE_DRAW_PAIRWISE_H_
#define TOFU_TESTS_CORE_DRAW_PAIRWISE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "check.h"
#include "core/elimination/pairwise.h"

namespace tofu_test {

using namespace tofu;  // NOLINT(build/namespaces)

/*! \brief Draw a chain with up to `chords` chords from each variable; some tables are shared.
 * Entries are up to `most` bytes; if these are few, many assignments cost the same. */
inline PairwiseProblem DrawProblem(uint64_t seed, int64_t most = 50, int chords = 1) {
  Random random(seed);
  PairwiseProblem problem;
  const int size = static_cast<int>(random.Draw(2, 9));
  for (int v = 0; v < size; ++v) {
    problem.unary.emplace_back();
    for (int64_t x = 0; x < 3; ++x)
      problem.unary.back().push_back(
          MakeWeight(random.Draw(0, 2 * most / 5), random.Draw(0, 1000000)));
  }
  SharedMatrix last;
  const auto connect = [&](int a, int b) {
    if (random.Draw(0, 1) > 0) std::swap(a, b);
    if (last == nullptr || random.Draw(0, 2) > 0) {
      auto bytes = std::make_shared<ByteMatrix>();
      bytes->rows = bytes->columns = 3;
      for (int i = 0; i < 9; ++i) bytes->entries.push_back(random.Draw(0, most));
      last = bytes;
    }
    problem.pairs.push_back({a, b, last});
  };
  for (int v = 1; v < size; ++v) connect(v - 1, v);
  for (int chord = 0; chord < chords; ++chord) {
    for (int v = 3; v < size; ++v) {
      if (random.Draw(0, 1) > 0) connect(v, static_cast<int>(random.Draw(0, v - 2)));
    }
  }
  return problem;
}

inline Weight Least(const PairwiseProblem& problem) {
  return EliminatePairwise(problem, kMaxTableEntries).weight;
}

}  // namespace tofu_test

#endif  // TOFU_TESTS_CORE_DRAW_PAIRWISE_H_
