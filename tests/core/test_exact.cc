/*!
 * \file test_exact.cc
 * \brief Reductions and bounds of pairwise problems, compared with exhaustive elimination.
 */
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/search/exact_bound.h"
#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"
#include "draw_pairwise.h"

namespace {

using namespace tofu;  // NOLINT(build/namespaces)
using tofu_test::DrawProblem;
using tofu_test::FindLeast;
using tofu_test::NaturalOrder;

/*! \brief No bound exceeds the least cost, on the way or at the end, and claims of optimality hold.
 */
void CheckSearchByBounds(uint64_t seed, int64_t most, const ExactLimits& limits, int* num_open) {
  PairwiseProblem pairwise = DrawProblem(seed, most, 3);
  const int64_t least = WeightBytes(FindLeast(pairwise));
  ExactProblem problem;
  problem.sequences.assign(pairwise.size(), std::make_shared<std::vector<std::vector<int>>>(
                                                std::vector<std::vector<int>>{{0}, {1}, {2}}));
  problem.order = NaturalOrder(pairwise);
  const ExactProgress check = [&](const std::string&, int64_t best, int64_t bound) {
    CHECK(bound <= least);
    CHECK(best == -1 || best >= least);
  };
  ExactState state(limits, check);
  Part part = MakePart(std::move(pairwise));
  if (seed % 2 == 0) state.Offer(part, std::vector<int>(part.problem.size(), 1));
  if (seed % 3 == 0) state.DropDominated(&part);
  SearchByBounds(problem, &part, &state);
  CHECK(state.bound() <= least);
  CHECK(state.bytes() >= least);
  CHECK(!state.is_optimal() || state.bytes() == least);
  *num_open += !state.is_optimal();
}

void TestNoBoundExceedsTheOptimum() {
  int num_open = 0;
  for (size_t max_table_entries : {1, 3, 9, 27, 81}) {
    for (double seconds : {0.0, 1e-6, 1.0}) {
      ExactLimits limits;
      limits.seconds = seconds;
      limits.max_table_entries = max_table_entries;
      for (int64_t most : {2, 50, 100000}) {
        for (uint64_t seed = 1; seed <= 60; ++seed)
          CheckSearchByBounds(seed, most, limits, &num_open);
      }
    }
  }
  CHECK(num_open > 100);  // else every problem was solved, and no bound tested
}

}  // namespace

int main() {
  TestNoBoundExceedsTheOptimum();
  return tofu_test::Finish("exact");
}
