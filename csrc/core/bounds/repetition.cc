/*!
 * \file repetition.cc
 * \brief Colour refinement.
 */
#include "core/bounds/repetition.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace tofu {

namespace {

/*! \brief Numbers keys, so that equal keys have equal numbers. */
template <typename Key>
class Numbers {
 public:
  int Of(const Key& key) {
    return numbers_.emplace(key, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, int> numbers_;
};

/*! \brief By pair: equal for tables of equal entries, the same object or not. */
std::vector<int> NumberTables(const PairwiseProblem& problem) {
  Numbers<std::pair<size_t, std::vector<int64_t>>> contents;
  std::map<const ByteMatrix*, int> known;
  std::vector<int> numbers;
  for (const PairTable& pair : problem.pairs) {
    const auto found = known.emplace(pair.bytes.get(), 0);
    if (found.second) found.first->second = contents.Of({pair.bytes->rows, pair.bytes->entries});
    numbers.push_back(found.first->second);
  }
  return numbers;
}

}  // namespace

std::vector<int> FindAlike(const PairwiseProblem& problem, int radius) {
  const std::vector<int> tables = NumberTables(problem);
  std::vector<int> alike;
  Numbers<std::vector<Weight>> unaries;
  for (const std::vector<Weight>& unary : problem.unary) alike.push_back(unaries.Of(unary));
  for (int step = 0; step < radius; ++step) {
    using Edge = std::tuple<int, bool, int>;  // table, side, what is at the other end
    std::vector<std::vector<Edge>> edges(problem.size());
    for (size_t i = 0; i < problem.pairs.size(); ++i) {
      const PairTable& pair = problem.pairs[i];
      edges[pair.first].emplace_back(tables[i], true, alike[pair.second]);
      edges[pair.second].emplace_back(tables[i], false, alike[pair.first]);
    }
    Numbers<std::pair<int, std::vector<Edge>>> refined;
    for (int v = 0; v < problem.size(); ++v) {
      std::sort(edges[v].begin(), edges[v].end());
      alike[v] = refined.Of({alike[v], std::move(edges[v])});
    }
  }
  return alike;
}

}  // namespace tofu
