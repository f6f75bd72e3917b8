/*!
 * \file bound.cc
 */
#include "core/bounds/bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/byte_loops.h"
#include "core/base/numbering.h"

namespace tofu {

namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

int64_t Least(const std::vector<int64_t>& values) {
  return *std::min_element(values.begin(), values.end());
}

int64_t SubtractLeast(std::vector<int64_t>* values) {
  const int64_t least = Least(*values);
  for (int64_t& value : *values) value -= least;
  return least;
}

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

MessagePassing::MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order)
    : problem_(problem), order_(order), places_(order.size()), edges_(order.size()) {
  for (size_t place = 0; place < order.size(); ++place)
    places_[order[place]] = static_cast<int>(place);
  for (size_t i = 0; i < problem.pairs.size(); ++i) {
    const PairTable& pair = problem.pairs[i];
    edges_[pair.first].push_back({pair.second, static_cast<int>(i), true});
    edges_[pair.second].push_back({pair.first, static_cast<int>(i), false});
    into_first_.emplace_back(pair.bytes->rows, 0);
    into_second_.emplace_back(pair.bytes->columns, 0);
  }
  for (int v = 0; v < problem.size(); ++v) {
    const auto later = std::count_if(edges_[v].begin(), edges_[v].end(), [&](const Edge& edge) {
      return places_[edge.other] > places_[v];
    });
    const auto earlier = static_cast<std::ptrdiff_t>(edges_[v].size()) - later;
    weights_.push_back(1.0 / static_cast<double>(std::max<std::ptrdiff_t>({later, earlier, 1})));
    unary_bytes_.push_back(ListBytes(problem.unary[v]));
  }
}

MessagePassing::MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order,
                               const MessagePassing& larger, const KeptValues& kept)
    : MessagePassing(problem, order) {
  for (size_t i = 0; i < problem.pairs.size(); ++i) {
    const std::vector<int>& rows = kept[problem.pairs[i].first];
    const std::vector<int>& columns = kept[problem.pairs[i].second];
    for (size_t x = 0; x < rows.size(); ++x) into_first_[i][x] = larger.into_first_[i][rows[x]];
    for (size_t y = 0; y < columns.size(); ++y)
      into_second_[i][y] = larger.into_second_[i][columns[y]];
  }
}

std::vector<int64_t> MessagePassing::CollectMessages(int variable) const {
  std::vector<int64_t> sum = unary_bytes_[variable];
  for (const Edge& edge : edges_[variable]) {
    const std::vector<int64_t>& message = Message(edge.pair, edge.is_first);
    for (size_t x = 0; x < sum.size(); ++x) sum[x] += message[x];
  }
  return sum;
}

std::vector<int64_t> MessagePassing::ComputeShare(int variable, std::vector<int64_t> sum) const {
  for (int64_t& entry : sum) entry = std::llround(weights_[variable] * static_cast<double>(entry));
  return sum;
}

/*! \brief Set message(y) = min over x of [share(x) - message back(x) + pair(x, y)], minus its least
 * entry. */
void MessagePassing::SendMessage(const Edge& edge, const std::vector<int64_t>& share) {
  const ByteMatrix& bytes = *problem_.pairs[edge.pair].bytes;
  const std::vector<int64_t>& back = Message(edge.pair, edge.is_first);
  std::vector<int64_t>& message = Message(edge.pair, !edge.is_first);
  if (edge.is_first) {
    std::fill(message.begin(), message.end(), kInfinite);
    for (size_t x = 0; x < bytes.rows; ++x) {
      LowerTo(share[x] - back[x], bytes.row(x), bytes.columns, message.data());
    }
  } else {
    std::vector<int64_t> base = share;
    for (size_t y = 0; y < base.size(); ++y) base[y] -= back[y];
    for (size_t x = 0; x < bytes.rows; ++x)
      message[x] = LeastSum(base.data(), bytes.row(x), bytes.columns);
  }
  SubtractLeast(&message);
}

void MessagePassing::Visit(int variable, bool forward) {
  const std::vector<int64_t> share = ComputeShare(variable, CollectMessages(variable));
  for (const Edge& edge : edges_[variable]) {
    if ((places_[edge.other] > places_[variable]) == forward) SendMessage(edge, share);
  }
}

void MessagePassing::Sweep() {
  for (int v : order_) Visit(v, true);
  for (auto v = order_.rbegin(); v != order_.rend(); ++v) Visit(*v, false);
}

void MessagePassing::Average(const std::vector<int>& alike) {
  std::map<std::tuple<int, int, const ByteMatrix*>, std::vector<size_t>> classes;
  for (size_t i = 0; i < problem_.pairs.size(); ++i) {
    const PairTable& pair = problem_.pairs[i];
    classes[{alike[pair.first], alike[pair.second], pair.bytes.get()}].push_back(i);
  }
  for (const auto& [key, pairs] : classes) {
    for (auto* messages : {&into_first_, &into_second_}) {
      std::vector<int64_t> mean((*messages)[pairs.front()].size(), 0);
      for (size_t i : pairs) {
        for (size_t x = 0; x < mean.size(); ++x) mean[x] += (*messages)[i][x];
      }
      for (int64_t& bytes : mean) bytes /= static_cast<int64_t>(pairs.size());
      for (size_t i : pairs) (*messages)[i] = mean;
    }
  }
}

std::vector<std::vector<int64_t>> MessagePassing::ComputeRemainders(
    std::vector<std::vector<int64_t>>* shares) const {
  std::vector<std::vector<int64_t>> remainders;
  for (int v = 0; v < problem_.size(); ++v) {
    remainders.push_back(CollectMessages(v));
    shares->push_back(ComputeShare(v, remainders.back()));
    for (const Edge& edge : edges_[v]) {
      if (places_[edge.other] > places_[v]) continue;
      for (size_t x = 0; x < remainders[v].size(); ++x) remainders[v][x] -= shares->back()[x];
    }
  }
  return remainders;
}

ByteMatrix MessagePassing::ComputeRest(size_t pair,
                                       const std::vector<std::vector<int64_t>>& shares) const {
  const PairTable& table = problem_.pairs[pair];
  const bool is_first_later = places_[table.first] > places_[table.second];
  std::vector<int64_t> of_row = into_first_[pair];
  std::vector<int64_t> of_column = into_second_[pair];
  const std::vector<int64_t>& share = shares[is_first_later ? table.first : table.second];
  for (size_t x = 0; x < share.size(); ++x) (is_first_later ? of_row : of_column)[x] -= share[x];
  ByteMatrix rest = *table.bytes;
  for (size_t x = 0; x < rest.rows; ++x) {
    int64_t* row = rest.row(x);
    for (size_t y = 0; y < rest.columns; ++y) row[y] -= of_row[x] + of_column[y];
  }
  return rest;
}

int64_t MessagePassing::Spread(PairwiseProblem* spread) const {
  int64_t bound = 0;
  std::vector<std::vector<int64_t>> shares;
  for (std::vector<int64_t>& remainder : ComputeRemainders(&shares)) {
    bound += SubtractLeast(&remainder);
    spread->unary.push_back(ToWeights(remainder));
  }
  for (size_t i = 0; i < problem_.pairs.size(); ++i) {
    ByteMatrix rest = ComputeRest(i, shares);
    bound += SubtractLeast(&rest.entries);
    spread->pairs.push_back({problem_.pairs[i].first, problem_.pairs[i].second,
                             std::make_shared<ByteMatrix>(std::move(rest))});
  }
  return bound;
}

int64_t MessagePassing::ComputeBound(std::vector<std::vector<int64_t>>* reduced) const {
  int64_t bound = 0;
  std::vector<std::vector<int64_t>> shares;
  *reduced = ComputeRemainders(&shares);
  for (std::vector<int64_t>& remainder : *reduced) bound += SubtractLeast(&remainder);
  for (size_t i = 0; i < problem_.pairs.size(); ++i) {
    const ByteMatrix rest = ComputeRest(i, shares);
    std::vector<int64_t> rows(rest.rows, kInfinite);
    std::vector<int64_t> columns(rest.columns, kInfinite);
    for (size_t x = 0; x < rows.size(); ++x) {
      const int64_t* row = rest.row(x);
      rows[x] = *std::min_element(row, row + rest.columns);
      LowerTo(0, row, rest.columns, columns.data());
    }
    const int64_t least = Least(rows);
    bound += least;
    const PairTable& pair = problem_.pairs[i];
    for (size_t x = 0; x < rows.size(); ++x) (*reduced)[pair.first][x] += rows[x] - least;
    for (size_t y = 0; y < columns.size(); ++y) (*reduced)[pair.second][y] += columns[y] - least;
  }
  return bound;
}

std::vector<int> MessagePassing::RoundGreedily() const {
  std::vector<int> values(problem_.size(), 0);
  for (int v : order_) {
    std::vector<int64_t> costs = unary_bytes_[v];
    for (const Edge& edge : edges_[v]) {
      const bool is_decided = places_[edge.other] < places_[v];
      const ByteMatrix& bytes = *problem_.pairs[edge.pair].bytes;
      const int other = values[edge.other];
      for (size_t x = 0; x < costs.size(); ++x) {
        costs[x] += !is_decided     ? Message(edge.pair, edge.is_first)[x]
                    : edge.is_first ? bytes.at(x, other)
                                    : bytes.at(other, x);
      }
    }
    values[v] = static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
  ImproveOneByOne(&values);
  return values;
}

void MessagePassing::ImproveOneByOne(std::vector<int>* values) const {
  constexpr int kMaxRounds = 10;
  bool has_changed = true;
  for (int round = 0; has_changed && round < kMaxRounds; ++round) {
    has_changed = false;
    for (int v : order_) {
      std::vector<int64_t> costs = unary_bytes_[v];
      for (const Edge& edge : edges_[v]) {
        const ByteMatrix& bytes = *problem_.pairs[edge.pair].bytes;
        const int other = (*values)[edge.other];
        for (size_t x = 0; x < costs.size(); ++x)
          costs[x] += edge.is_first ? bytes.at(x, other) : bytes.at(other, x);
      }
      const auto least = std::min_element(costs.begin(), costs.end());
      if (*least < costs[(*values)[v]]) {
        (*values)[v] = static_cast<int>(least - costs.begin());
        has_changed = true;
      }
    }
  }
}

}  // namespace tofu
