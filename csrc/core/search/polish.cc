/*!
 * \file polish.cc
 * \brief Eliminations in which two rounds are free.
 */
#include "core/search/polish.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tofu {

KeptValues FreeRounds(const ExactProblem& problem, const KeptValues& originals,
                      const std::vector<int>& values, int first, int second) {
  KeptValues kept;
  for (size_t v = 0; v < problem.sequences.size(); ++v) {
    const std::vector<std::vector<int>>& sequences = *problem.sequences[v];
    std::vector<int> best = sequences[values[v]];
    kept.emplace_back();
    for (size_t x = 0; x < originals[v].size(); ++x) {
      const std::vector<int>& choices = sequences[originals[v][x]];
      best[first] = choices[first];
      best[second] = choices[second];
      if (choices == best) kept.back().push_back(static_cast<int>(x));
    }
  }
  for (size_t v = problem.sequences.size(); v < originals.size(); ++v) {
    kept.push_back(CountUp(originals[v].size()));
  }
  return kept;
}

void ForEachTwoRounds(const std::function<std::vector<int>()>& find_kinds,
                      const std::function<bool()>& is_over,
                      const std::function<bool(int first, int second)>& improve) {
  std::vector<int> kinds = find_kinds();
  const int rounds = static_cast<int>(kinds.size());
  std::set<std::pair<int, int>> idle;  // kinds of pairs that do not help
  bool has_tried = rounds > 2;
  while (has_tried) {
    has_tried = false;
    for (int first = 0; first < rounds; ++first) {
      for (int second = first + 1; second < rounds; ++second) {
        const std::pair<int, int> pair = std::minmax({kinds[first], kinds[second]});
        if (!idle.insert(pair).second) continue;
        if (is_over()) return;
        has_tried = true;
        if (!improve(first, second)) continue;
        idle.clear();
        kinds = find_kinds();
      }
    }
  }
}

void Polish(const ExactProblem& problem, const Part& part, ExactState* state) {
  if (!state->has_plan()) return;
  ForEachTwoRounds(
      [&problem] { return CountUp(CountRounds(problem)); }, [state] { return state->IsOver(); },
      [&](int first, int second) {
        const Weight before = state->weight();
        const KeptValues kept = FreeRounds(problem, part.originals, state->values(), first, second);
        state->Solve(Select(part, kept));
        return state->weight() < before;
      });
}

}  // namespace tofu
