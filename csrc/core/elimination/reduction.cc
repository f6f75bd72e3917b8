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
    for (const Link& link : links) AddToUnary(link.other, tables_[link.table].begin);
  }
  if (NumValues(v) == 1 || links.empty()) {
    const auto best = std::min_element(unary_[v].begin(), unary_[v].end());
    constant_ += *best;
    decisions_.push_back({v, {}, 0, best_.size()});
    best_.push_back(static_cast<uint16_t>(best - unary_[v].begin()));
  } else {
    Minimise(v, links);
  }
}

/*! \brief Eliminate a variable with one neighbour or two. A missing second one counts as a variable
 * with one value, which costs nothing. */
void Reduction::Minimise(int v, const std::vector<Link>& links) {
  const bool is_end = links.size() == 1;
  const size_t values = NumValues(v), begin = cells_.size();
  const std::vector<Weight> right =
      is_end ? std::vector<Weight>(values, 0) : TurnTo(v, tables_[links[1].table]);
  std::vector<Weight> left = TurnTo(v, tables_[links[0].table]);
  for (size_t i = 0; i < left.size(); ++i) left[i] += unary_[v][i % values];
  decisions_.push_back({v, {links[0].other, links.back().other}, is_end ? 1 : 2, best_.size()});
  for (size_t row = 0; row < left.size(); row += values) {
    for (size_t column = 0; column < right.size(); column += values) {
      size_t best = 0;
      Weight least = left[row] + right[column];
      for (size_t x = 1; x < values; ++x) {
        const Weight sum = left[row + x] + right[column + x];
        if (sum >= least) continue;
        least = sum;
        best = x;
      }
      cells_.push_back(least);
      best_.push_back(static_cast<uint16_t>(best));
    }
  }
  if (is_end) {
    AddToUnary(links[0].other, begin);
    cells_.resize(begin);
  } else {
    Connect(links[0].other, links[1].other, begin);
  }
}

/*! \brief Add the cells from `begin` on to the costs of a variable. */
void Reduction::AddToUnary(int v, size_t begin) {
  for (size_t x = 0; x < NumValues(v); ++x) unary_[v][x] += cells_[begin + x];
}

PairwiseProblem Reduction::MakeRest() const {
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
