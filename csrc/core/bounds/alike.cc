/*!
 * \file alike.cc
 */
#include "core/bounds/alike.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "core/base/numbering.h"

namespace tofu {

namespace {

/*! \brief Number the table of each pair: tables with equal entries have equal numbers. */
std::vector<int> NumberTables(const PairwiseProblem& problem) {
  Numbering contents;
  std::map<const ByteMatrix*, int> known;
  std::vector<int> numbers;
  for (const PairTable& pair : problem.pairs) {
    const auto found = known.emplace(pair.bytes.get(), 0);
    if (found.second) {
      std::vector<int64_t> content = pair.bytes->entries;
      content.push_back(static_cast<int64_t>(pair.bytes->rows));
      found.first->second = contents.Of(content);
    }
    numbers.push_back(found.first->second);
  }
  return numbers;
}

}  // namespace

std::vector<int> FindAlike(const PairwiseProblem& problem, int radius) {
  const std::vector<int> tables = NumberTables(problem);
  std::vector<int> alike;
  Numbering unaries;
  for (const std::vector<Weight>& unary : problem.unary) alike.push_back(unaries.Of(unary));
  for (int step = 0; step < radius; ++step) {
    using Edge = std::array<int, 3>;  // the table, the side, and the number of the neighbour
    std::vector<std::vector<Edge>> edges(problem.size());
    for (size_t i = 0; i < problem.pairs.size(); ++i) {
      const PairTable& pair = problem.pairs[i];
      edges[pair.first].push_back({tables[i], 1, alike[pair.second]});
      edges[pair.second].push_back({tables[i], 0, alike[pair.first]});
    }
    Numbering refined;
    for (int v = 0; v < problem.size(); ++v) {
      std::sort(edges[v].begin(), edges[v].end());
      std::vector<int> key = {alike[v]};
      for (const Edge& edge : edges[v]) key.insert(key.end(), edge.begin(), edge.end());
      alike[v] = refined.Of(key);
    }
  }
  return alike;
}

}  // namespace tofu
