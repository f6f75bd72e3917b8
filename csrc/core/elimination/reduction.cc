/*!
 * \file reduction.cc
 */
#include "core/elimination/reduction.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace tofu {

namespace {

constexpr size_t kMostNeighbours = 2;

uint64_t WeightTie(Weight weight) { return static_cast<uint64_t>(weight); }

}  // namespace

Reduction::Reduction(const PairwiseProblem& problem)
    : unary_(problem.unary), links_(problem.unary.size()) {
  for (const PairTable& pair : problem.pairs) {
    const size_t begin = cells_.size();
    for (size_t i = 0; i < pair.bytes->entries.size(); ++i)
      cells_.push_back(MakeWeight(pair.bytes->entries[i], pair.TieAt(i)));
    Connect(pair.first, pair.second, begin);
  }
  std::vector<char> is_gone(size());
  std::vector<int> waiting(size());
  for (int v = 0; v < size(); ++v) waiting[v] = v;
  while (!waiting.empty()) {
    const int v = waiting.back();
    waiting.pop_back();
    if (is_gone[v] != 0 || (links_[v].size() > kMostNeighbours && NumValues(v) > 1)) continue;
    is_gone[v] = 1;
    for (const Link& link : links_[v]) waiting.push_back(link.other);
    Remove(v);
  }
  for (int v = 0; v < size(); ++v) {
    if (is_gone[v] == 0) rest_.push_back(v);
  }
}

const Reduction::Link* Reduction::FindLink(int from, int to) const {
  for (const Link& link : links_[from]) {
    if (link.other == to) return &link;
  }
  return nullptr;
}

void Reduction::RemoveLink(int from, int to) {
  std::vector<Link>& links = links_[from];
  links[FindLink(from, to) - links.data()] = links.back();
  links.pop_back();
}

/*! \brief Add the last cells, from `begin` on, as a table, or to the table of the same variables.
 */
void Reduction::Connect(int first, int second, size_t begin) {
  const bool is_smaller = links_[first].size() < links_[second].size();
  const Link* link = is_smaller ? FindLink(first, second) : FindLink(second, first);
  if (link == nullptr) {
    const int id = static_cast<int>(tables_.size());
    tables_.push_back({first, second, begin});
    links_[first].push_back({second, id});
    links_[second].push_back({first, id});
    return;
  }
  const Table& known = tables_[link->table];
  const bool is_turned = known.first != first;
  const size_t rows = NumValues(first), columns = NumValues(second);
  for (size_t x = 0; x < rows; ++x) {
    for (size_t y = 0; y < columns; ++y)
      cells_[known.begin + (is_turned ? y * rows + x : x * columns + y)] +=
          cells_[begin + x * columns + y];
  }
  cells_.resize(begin);
}

/*! \brief Return a table with the values of v as columns. */
std::vector<Weight> Reduction::TurnTo(int v, const Table& table) const {
  const size_t rows = NumValues(table.first), columns = NumValues(table.second);
  const auto begin = cells_.begin() + static_cast<std::ptrdiff_t>(table.begin);
  std::vector<Weight> cells(begin, begin + static_cast<std::ptrdiff_t>(rows * columns));
  if (table.second == v) return cells;
  std::vector<Weight> turned(cells.size());
  for (size_t x = 0; x < rows; ++x) {
    for (size_t y = 0; y < columns; ++y) turned[y * rows + x] = cells[x * columns + y];
  }
  return turned;
}

void Reduction::Remove(int v) {
  const std::vector<Link> links = std::move(links_[v]);
  links_[v].clear();
  for (const Link& link : links) RemoveLink(link.other, v);
  if (NumValues(v) == 1) {
    for (const Link& link : links) AddToUnary(link);
  }
  if (NumValues(v) == 1 || links.empty()) {
    const auto best = std::min_element(unary_[v].begin(), unary_[v].end());
    constant_ += *best;
    decisions_.push_back({v, {}, 0, best_.size()});
    best_.push_back(static_cast<uint16_t>(best - unary_[v].begin()));
  } else if (links.size() == 1) {
    RemoveEnd(v, links[0]);
  } else {
    RemoveMiddle(v, links[0], links[1]);
  }
}

/*! \brief Add the only row of a table to the costs of a neighbour. */
void Reduction::AddToUnary(const Link& link) {
  std::vector<Weight>& unary = unary_[link.other];
  for (size_t y = 0; y < unary.size(); ++y) unary[y] += cells_[tables_[link.table].begin + y];
}

void Reduction::RemoveEnd(int v, const Link& link) {
  const std::vector<Weight> costs = TurnTo(v, tables_[link.table]);
  decisions_.push_back({v, {link.other}, 1, best_.size()});
  const size_t values = NumValues(v);
  for (size_t y = 0; y < NumValues(link.other); ++y) {
    size_t best = 0;
    Weight least = unary_[v][0] + costs[y * values];
    for (size_t x = 1; x < values; ++x) {
      const Weight sum = unary_[v][x] + costs[y * values + x];
      if (sum >= least) continue;
      least = sum;
      best = x;
    }
    unary_[link.other][y] += least;
    best_.push_back(static_cast<uint16_t>(best));
  }
}

void Reduction::RemoveMiddle(int v, const Link& left, const Link& right) {
  std::vector<Weight> from_left = TurnTo(v, tables_[left.table]);
  const std::vector<Weight> from_right = TurnTo(v, tables_[right.table]);
  decisions_.push_back({v, {left.other, right.other}, 2, best_.size()});
  const size_t values = NumValues(v), begin = cells_.size();
  for (size_t i = 0; i < from_left.size(); ++i) from_left[i] += unary_[v][i % values];
  for (size_t y = 0; y < NumValues(left.other); ++y) {
    for (size_t z = 0; z < NumValues(right.other); ++z) {
      size_t best = 0;
      Weight least = from_left[y * values] + from_right[z * values];
      for (size_t x = 1; x < values; ++x) {
        const Weight sum = from_left[y * values + x] + from_right[z * values + x];
        if (sum >= least) continue;
        least = sum;
        best = x;
      }
      cells_.push_back(least);
      best_.push_back(static_cast<uint16_t>(best));
    }
  }
  Connect(left.other, right.other, begin);
}

PairwiseProblem Reduction::TakeRest() {
  PairwiseProblem rest;
  std::vector<int> numbers(size(), -1);
  for (int v : rest_) {
    numbers[v] = rest.size();
    rest.unary.push_back(unary_[v]);
  }
  for (int v : rest_) {
    for (const Link& link : links_[v]) {
      const Table& table = tables_[link.table];
      if (table.first != v) continue;
      auto bytes =
          std::make_shared<ByteMatrix>(ByteMatrix{NumValues(v), NumValues(table.second), {}});
      auto ties = std::make_shared<std::vector<uint64_t>>();
      for (size_t i = 0; i < bytes->rows * bytes->columns; ++i) {
        bytes->entries.push_back(WeightBytes(cells_[table.begin + i]));
        ties->push_back(WeightTie(cells_[table.begin + i]));
      }
      rest.pairs.push_back({numbers[v], numbers[table.second], std::move(bytes), std::move(ties)});
    }
  }
  return rest;
}

EliminationResult Reduction::Complete(const EliminationResult& rest) const {
  EliminationResult result;
  result.weight = rest.weight + constant_;
  result.largest_table = rest.largest_table;
  result.values.assign(size(), 0);
  for (size_t i = 0; i < rest_.size(); ++i) result.values[rest_[i]] = rest.values[i];
  for (auto decision = decisions_.rbegin(); decision != decisions_.rend(); ++decision) {
    size_t index = 0;
    for (int i = 0; i < decision->count; ++i) {
      const int neighbour = decision->neighbours[i];
      index = index * NumValues(neighbour) + result.values[neighbour];
    }
    result.values[decision->variable] = best_[decision->begin + index];
  }
  return result;
}

}  // namespace tofu
