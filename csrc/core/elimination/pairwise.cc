/*!
 * \file pairwise.cc
 */
#include "core/elimination/pairwise.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_set>

#include "core/base/numbering.h"

namespace tofu {

Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values) {
  Weight weight = 0;
  for (int v = 0; v < problem.size(); ++v) weight += problem.unary[v][values[v]];
  for (const PairTable& pair : problem.pairs)
    weight += pair.At(values[pair.first], values[pair.second]);
  return weight;
}

namespace {

SharedMatrix TakeEntries(const ByteMatrix& from, const std::vector<int>& rows,
                         const std::vector<int>& columns) {
  auto taken = std::make_shared<ByteMatrix>(ByteMatrix{rows.size(), columns.size(), {}});
  taken->entries.reserve(rows.size() * columns.size());
  for (int row : rows) {
    for (int column : columns) taken->entries.push_back(from.at(row, column));
  }
  return taken;
}

}  // namespace

PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept) {
  PairwiseProblem restricted;
  Numbering lists;
  std::vector<int> numbers;
  for (int v = 0; v < problem.size(); ++v) {
    numbers.push_back(lists.Of(kept[v]));
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
    if (part == nullptr) part = TakeEntries(*pair.bytes, rows, columns);
    restricted.pairs.push_back({pair.first, pair.second, part});
  }
  return restricted;
}

std::vector<int> CountUp(size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

KeptValues KeepAll(const PairwiseProblem& problem) {
  KeptValues all;
  for (const std::vector<Weight>& unary : problem.unary) all.push_back(CountUp(unary.size()));
  return all;
}

size_t CountKept(const KeptValues& kept) {
  size_t count = 0;
  for (const std::vector<int>& values : kept) count += values.size();
  return count;
}

Part MakePart(PairwiseProblem problem) {
  KeptValues all = KeepAll(problem);
  return {std::move(problem), std::move(all)};
}

Part Select(const Part& part, const KeptValues& kept) {
  Part selected{Restrict(part.problem, kept), kept};
  for (size_t v = 0; v < kept.size(); ++v) {
    for (int& value : selected.originals[v]) value = part.originals[v][value];
  }
  return selected;
}

std::vector<int> FindPositions(const Part& part, const std::vector<int>& values) {
  std::vector<int> positions;
  for (size_t v = 0; v < values.size(); ++v) {
    const std::vector<int>& originals = part.originals[v];
    positions.push_back(static_cast<int>(
        std::lower_bound(originals.begin(), originals.end(), values[v]) - originals.begin()));
  }
  return positions;
}

std::vector<int64_t> ListBytes(const std::vector<Weight>& weights) {
  std::vector<int64_t> bytes(weights.size());
  std::transform(weights.begin(), weights.end(), bytes.begin(), WeightBytes);
  return bytes;
}

std::vector<Weight> ToWeights(const std::vector<int64_t>& bytes) {
  std::vector<Weight> weights;
  weights.reserve(bytes.size());
  for (int64_t value : bytes) weights.push_back(MakeWeight(value, 0));
  return weights;
}

ByteMatrix Transpose(const ByteMatrix& matrix) {
  ByteMatrix turned{matrix.columns, matrix.rows, std::vector<int64_t>(matrix.entries.size())};
  for (size_t x = 0; x < matrix.rows; ++x) {
    for (size_t y = 0; y < matrix.columns; ++y)
      turned.entries[y * matrix.rows + x] = matrix.at(x, y);
  }
  return turned;
}

std::vector<const ByteMatrix*> ListTables(const PairwiseProblem& problem) {
  std::unordered_set<const ByteMatrix*> seen;
  std::vector<const ByteMatrix*> tables;
  for (const PairTable& pair : problem.pairs) {
    if (seen.insert(pair.bytes.get()).second) tables.push_back(pair.bytes.get());
  }
  return tables;
}

const SharedMatrix& DistinctMatrices::Add(SharedMatrix matrix) {
  SharedMatrix& known = known_[{matrix->rows, matrix->entries}];
  if (known == nullptr) known = std::move(matrix);
  return known;
}

size_t CountDistinctEntries(const PairwiseProblem& problem) {
  size_t entries = 0;
  for (const ByteMatrix* table : ListTables(problem)) entries += table->entries.size();
  return entries;
}

EliminationEstimate EstimateElimination(const PairwiseProblem& problem, const KeptValues& kept) {
  PairwiseProblem connected{std::vector<std::vector<Weight>>(problem.size()), {}};
  for (const PairTable& pair : problem.pairs) {
    if (kept[pair.first].size() > 1 && kept[pair.second].size() > 1)
      connected.pairs.push_back(pair);
  }
  std::vector<std::vector<int>> lists = FindNeighbours(connected);
  std::vector<std::set<int>> neighbours;
  for (const std::vector<int>& list : lists) neighbours.emplace_back(list.begin(), list.end());
  EliminationEstimate estimate;
  estimate.order = FindEliminationOrder(std::move(lists));
  for (int v : estimate.order) {
    const std::set<int> around = std::move(neighbours[v]);
    double entries = 1;
    for (int other : around) {
      entries *= static_cast<double>(kept[other].size());
      neighbours[other].erase(v);
      neighbours[other].insert(around.begin(), around.end());
      neighbours[other].erase(other);
    }
    estimate.largest_table = std::max(estimate.largest_table, entries);
    estimate.entries += entries;
    estimate.operations += entries * static_cast<double>(kept[v].size());
  }
  return estimate;
}

EliminationResult EliminatePairwise(const PairwiseProblem& problem, size_t max_entries,
                                    std::vector<int> order) {
  PairwiseProblem plain{problem.unary, {}};
  for (const PairTable& pair : problem.pairs) {
    std::vector<Weight>& of_first = plain.unary[pair.first];
    std::vector<Weight>& of_second = plain.unary[pair.second];
    if (of_second.size() == 1) {
      for (size_t x = 0; x < of_first.size(); ++x) of_first[x] += pair.At(x, 0);
    } else if (of_first.size() == 1) {
      for (size_t y = 0; y < of_second.size(); ++y) of_second[y] += pair.At(0, y);
    } else {
      plain.pairs.push_back(pair);
    }
  }
  return Eliminate(plain, max_entries, std::move(order));
}

}  // namespace tofu
