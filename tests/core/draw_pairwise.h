/*!
 * \file draw_pairwise.h
 * \brief Random pairwise problems, and their least costs by exhaustive search and by elimination.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

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

/*! \brief The variables in the order of their numbers. */
inline std::vector<int> NaturalOrder(const PairwiseProblem& problem) {
  std::vector<int> order(problem.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/*! \brief Call `take` with every assignment. */
template <typename Take>
void ForAll(const PairwiseProblem& problem, Take take) {
  std::vector<int> values(problem.size(), 0);
  for (size_t v = 0; v < values.size();) {
    if (v == 0) take(values);
    if (++values[v] == static_cast<int>(problem.unary[v].size())) {
      values[v++] = 0;
    } else {
      v = 0;
    }
  }
}

/*! \brief The least cost by exhaustive search. */
inline Weight FindLeast(const PairwiseProblem& problem) {
  Weight least = EvaluatePairwise(problem, std::vector<int>(problem.size(), 0));
  ForAll(problem, [&](const std::vector<int>& values) {
    least = std::min(least, EvaluatePairwise(problem, values));
  });
  return least;
}

/*! \brief The least cost by elimination. */
inline Weight Least(const PairwiseProblem& problem) {
  return EliminatePairwise(problem, kMaxTableEntries).weight;
}

/*! \brief The least bytes if variable `v` has the value `x`. */
inline int64_t LeastBytesWith(const PairwiseProblem& problem, int v, int x) {
  KeptValues kept = KeepAll(problem);
  kept[v] = {x};
  return WeightBytes(Least(Restrict(problem, kept)));
}

}  // namespace tofu_test
