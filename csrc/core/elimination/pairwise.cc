/*!
 * \file pairwise.cc
 * \brief Evaluation, restriction and elimination of problems with shared tables.
 */
#include "core/elimination/pairwise.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace tofu {

Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values) {
  Weight weight = 0;
  for (int v = 0; v < problem.size(); ++v) weight += problem.unary[v][values[v]];
  for (const PairTable& pair : problem.pairs)
    weight += MakeWeight(pair.bytes->at(values[pair.first], values[pair.second]), 0);
  return weight;
}

namespace {

/*! \brief Numbers lists of values, so that equal lists have equal numbers. */
class ValueLists {
 public:
  int Number(const std::vector<int>& values) {
    return numbers_.emplace(values, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::vector<int>, int> numbers_;
};

SharedMatrix Submatrix(const ByteMatrix& from, const std::vector<int>& rows,
                       const std::vector<int>& columns) {
  auto part = std::make_shared<ByteMatrix>();
  part->rows = rows.size();
  part->columns = columns.size();
  part->entries.reserve(rows.size() * columns.size());
  for (int row : rows) {
    for (int column : columns) part->entries.push_back(from.at(row, column));
  }
  return part;
}

}  // namespace

PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept) {
  PairwiseProblem restricted;
  ValueLists lists;
  std::vector<int> numbers;
  for (int v = 0; v < problem.size(); ++v) {
    numbers.push_back(lists.Number(kept[v]));
    restricted.unary.emplace_back();
    for (int value : kept[v]) restricted.unary.back().push_back(problem.unary[v][value]);
  }
  std::map<std::tuple<const ByteMatrix*, int, int>, SharedMatrix> known;
  for (const PairTable& pair : problem.pairs) {
    const std::vector<int>& rows = kept[pair.first];
    const std::vector<int>& columns = kept[pair.second];
    if (rows.size() == pair.bytes->rows && columns.size() == pair.bytes->columns) {
      restricted.pairs.push_back(pair);
      continue;
    }
    SharedMatrix& part = known[{pair.bytes.get(), numbers[pair.first], numbers[pair.second]}];
    if (part == nullptr) part = Submatrix(*pair.bytes, rows, columns);
    restricted.pairs.push_back({pair.first, pair.second, part});
  }
  return restricted;
}

std::vector<std::vector<int>> FindIncidentPairs(const PairwiseProblem& problem) {
  std::vector<std::vector<int>> incident(problem.size());
  for (size_t i = 0; i < problem.pairs.size(); ++i) {
    incident[problem.pairs[i].first].push_back(static_cast<int>(i));
    incident[problem.pairs[i].second].push_back(static_cast<int>(i));
  }
  return incident;
}

size_t CountDistinctEntries(const PairwiseProblem& problem) {
  std::unordered_set<const ByteMatrix*> seen;
  size_t entries = 0;
  for (const PairTable& pair : problem.pairs) {
    if (seen.insert(pair.bytes.get()).second) entries += pair.bytes->entries.size();
  }
  return entries;
}

namespace {

std::vector<size_t> CountValues(const PairwiseProblem& problem) {
  std::vector<size_t> counts;
  counts.reserve(problem.unary.size());
  for (const std::vector<Weight>& unary : problem.unary) counts.push_back(unary.size());
  return counts;
}

/*! \brief The neighbours where variables have so many values. */
std::vector<std::vector<int>> Connect(const PairwiseProblem& problem,
                                      const std::vector<size_t>& counts) {
  std::vector<std::vector<int>> neighbours(problem.size());
  for (const PairTable& pair : problem.pairs) {
    if (counts[pair.first] == 1 || counts[pair.second] == 1) continue;
    neighbours[pair.first].push_back(pair.second);
    neighbours[pair.second].push_back(pair.first);
  }
  for (std::vector<int>& list : neighbours) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return neighbours;
}

EliminationEstimate Estimate(std::vector<std::vector<int>> lists,
                             const std::vector<size_t>& counts) {
  std::vector<std::set<int>> neighbours;
  for (const std::vector<int>& list : lists) neighbours.emplace_back(list.begin(), list.end());
  EliminationEstimate estimate;
  estimate.order = FindEliminationOrder(std::move(lists));
  for (int v : estimate.order) {
    const std::set<int> around = std::move(neighbours[v]);
    double entries = 1;
    for (int other : around) {
      entries *= static_cast<double>(counts[other]);
      neighbours[other].erase(v);
      neighbours[other].insert(around.begin(), around.end());
      neighbours[other].erase(other);
    }
    estimate.largest_table = std::max(estimate.largest_table, entries);
    estimate.entries += entries;
    estimate.operations += entries * static_cast<double>(counts[v]);
  }
  return estimate;
}

}  // namespace

std::vector<std::vector<int>> FindNeighbours(const PairwiseProblem& problem) {
  return Connect(problem, CountValues(problem));
}

EliminationEstimate EstimateElimination(const PairwiseProblem& problem) {
  const std::vector<size_t> counts = CountValues(problem);
  return Estimate(Connect(problem, counts), counts);
}

EliminationEstimate EstimateElimination(const PairwiseProblem& problem, const KeptValues& kept) {
  std::vector<size_t> counts;
  for (const std::vector<int>& values : kept) counts.push_back(values.size());
  return Estimate(Connect(problem, counts), counts);
}

EliminationResult EliminatePairwise(const PairwiseProblem& problem, size_t max_entries,
                                    std::vector<int> order) {
  EliminationProblem plain;
  plain.order = std::move(order);
  plain.unary = problem.unary;
  for (const PairTable& pair : problem.pairs) {
    std::vector<Weight>& of_first = plain.unary[pair.first];
    std::vector<Weight>& of_second = plain.unary[pair.second];
    if (of_second.size() == 1) {
      for (size_t x = 0; x < of_first.size(); ++x)
        of_first[x] += MakeWeight(pair.bytes->at(x, 0), 0);
    } else if (of_first.size() == 1) {
      for (size_t y = 0; y < of_second.size(); ++y)
        of_second[y] += MakeWeight(pair.bytes->at(0, y), 0);
    } else {
      plain.pairs.push_back({pair.first, pair.second, pair.bytes->entries});
    }
  }
  return Eliminate(plain, max_entries);
}

}  // namespace tofu
