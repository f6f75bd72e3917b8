/*!
 * \file geometry.cc
 */
#include "core/geometry/geometry.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/text.h"

namespace tofu {

WorkerGrid::WorkerGrid(std::vector<int64_t> factors, std::vector<double> prices,
                       std::vector<double> latencies)
    : factors_(std::move(factors)), prices_(std::move(prices)), latencies_(std::move(latencies)) {
  const auto is_price = [](double price) { return std::isfinite(price) && price > 0; };
  if (has_prices() && (prices_.size() != factors_.size() ||
                       !std::all_of(prices_.begin(), prices_.end(), is_price))) {
    Refuse(prices_.size(), " prices for ", factors_.size(),
           " rounds: each round needs one, a positive number");
  }
  const auto is_latency = [](double latency) { return std::isfinite(latency) && latency >= 0; };
  if (!latencies_.empty() && (!has_prices() || latencies_.size() != factors_.size() ||
                              !std::all_of(latencies_.begin(), latencies_.end(), is_latency))) {
    Refuse(latencies_.size(), " latencies for ", factors_.size(),
           " rounds: each round needs one that is not negative, beside a price");
  }
  constexpr int64_t kMaxWorkers = 65536;
  int64_t product = 1;
  for (int64_t factor : factors_) {
    if (factor < 2) Refuse("factors ", FormatList(factors_), ": each round needs at least 2 parts");
    product = factor > kMaxWorkers ? factor : product * factor;
    if (product > kMaxWorkers)
      Refuse("factors ", FormatList(factors_), ": more than 65536 workers");
  }
  num_workers_ = static_cast<int>(product);
  digits_.resize(static_cast<size_t>(num_workers_) * factors_.size());
  for (int worker = 0; worker < num_workers_; ++worker) {
    int64_t quotient = worker;
    for (int round = num_rounds() - 1; round >= 0; --round) {
      digits_[static_cast<size_t>(worker) * factors_.size() + round] =
          static_cast<int>(quotient % factors_[round]);
      quotient /= factors_[round];
    }
  }
}

WorkerGrid WorkerGrid::Prefix(int rounds) const {
  const auto first = [&](const std::vector<double>& values) {
    return values.empty() ? values : std::vector<double>(values.begin(), values.begin() + rounds);
  };
  return WorkerGrid({factors_.begin(), factors_.begin() + rounds}, first(prices_),
                    first(latencies_));
}

WorkerGrid WorkerGrid::UnpricedPrefix(int rounds) const {
  return WorkerGrid({factors_.begin(), factors_.begin() + rounds});
}

WorkerGrid WorkerGrid::OneLevel(int rounds, double latency) const {
  if (latency == 0) return UnpricedPrefix(rounds);
  return WorkerGrid({factors_.begin(), factors_.begin() + rounds}, std::vector<double>(rounds, 1),
                    std::vector<double>(rounds, latency));
}

int WorkerGrid::CrossedRound(int worker, int other) const {
  int round = 0;
  while (digit(worker, round) == digit(other, round)) ++round;
  return round;
}

int64_t TotalVolume(const Boxes& boxes) {
  int64_t volume = 0;
  for (int worker = 0; worker < boxes.count(); ++worker)
    volume += Volume(boxes[worker], boxes.rank());
  return volume;
}

std::vector<Interval> ListParts(const Boxes& boxes, const std::vector<int>& workers,
                                int dimension) {
  std::vector<Interval> parts;
  for (int worker : workers) parts.push_back(boxes[worker][dimension]);
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

Boxes SplitBoxes(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                 const std::vector<int>& choice, bool equally) {
  const auto split = equally ? SplitEqualPart : SplitPart;
  const int count = grid.num_workers(), rank = static_cast<int>(extents.size());
  Boxes boxes(count, rank);
  std::copy_n(FullBox(extents).begin(), rank, boxes[0]);
  // Workers with equal first digits are a block. The first worker of the block has its box.
  int block = count;
  for (size_t round = 0; round < choice.size(); ++round) {
    const auto factor = static_cast<int>(grid.factor(static_cast<int>(round)));
    const int part = block / factor;
    for (int first = 0; first < count; first += block) {
      const Interval* whole = boxes[first];
      for (int digit = factor - 1; digit >= 0; --digit) {
        Interval* box = boxes[first + digit * part];
        if (digit > 0) std::copy_n(whole, rank, box);
        if (choice[round] == kReplicated) continue;
        box[choice[round]] = split(whole[choice[round]], digit, factor);
      }
    }
    block = part;
  }
  for (int worker = 0; worker < count; ++worker) {
    if (worker % block != 0) std::copy_n(boxes[worker - 1], rank, boxes[worker]);
  }
  return boxes;
}

bool HasRest(const std::vector<int64_t>& extents, const WorkerGrid& grid,
             const std::vector<int>& choice) {
  std::vector<int64_t> part_extents = extents;
  for (size_t round = 0; round < choice.size(); ++round) {
    if (choice[round] == kReplicated) continue;
    const int64_t factor = grid.factor(static_cast<int>(round));
    if (part_extents[choice[round]] % factor != 0) return true;
    part_extents[choice[round]] /= factor;
  }
  return false;
}

Boxes OwnBoxes(const Boxes& parts) {
  Boxes own_boxes = parts;
  for (int d = 0; d < parts.rank(); ++d) {
    std::set<int64_t> begins;
    for (int worker = 0; worker < parts.count(); ++worker) begins.insert(parts[worker][d].begin);
    for (int worker = 0; worker < parts.count(); ++worker) {
      Interval& interval = own_boxes[worker][d];
      const auto next_begin = begins.upper_bound(interval.begin);
      if (next_begin != begins.end()) interval.end = std::min(interval.end, *next_begin);
    }
  }
  return own_boxes;
}

namespace {

bool DependsOnChoice(const Row& row, const std::vector<int>& choice) {
  return std::any_of(row.terms.begin(), row.terms.end(), [&](const Term& term) {
    return std::find(choice.begin(), choice.end(), term.axis) != choice.end();
  });
}

Interval EvaluateRow(const Row& row, const Interval* axes) {
  Interval region{row.lower, row.upper};
  for (const Term& term : row.terms) {
    const int64_t at_begin = term.coefficient * axes[term.axis].begin;
    const int64_t at_last = term.coefficient * (axes[term.axis].end - 1);
    region.begin += std::min(at_begin, at_last);
    region.end += std::max(at_begin, at_last);
  }
  return region;
}

}  // namespace

Boxes ComputeRegions(const std::vector<Row>& rows, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice, bool exact) {
  Boxes regions(axis_boxes.count(), static_cast<int>(rows.size()));
  for (size_t d = 0; d < rows.size(); ++d) {
    const bool depends_on_choice = exact || DependsOnChoice(rows[d], choice);
    for (int worker = 0; worker < regions.count(); ++worker) {
      regions[worker][d] =
          depends_on_choice ? EvaluateRow(rows[d], axis_boxes[worker]) : Interval{0, shape[d]};
    }
  }
  return regions;
}

void LeaveOut(const Absent& absent, const Boxes& axis_boxes, const std::vector<int>& choice,
              Boxes* regions) {
  if (!absent.IsGiven() || !DependsOnChoice(absent.row, choice)) return;
  for (int worker = 0; worker < regions->count(); ++worker) {
    if (Contains(EvaluateRow(absent.row, axis_boxes[worker]), {0, 1})) continue;
    std::fill_n((*regions)[worker], regions->rank(), Interval{0, 0});
  }
}

Boxes ClipBoxes(const Boxes& boxes, const std::vector<int64_t>& shape) {
  Boxes clipped = boxes;
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (size_t d = 0; d < shape.size(); ++d)
      clipped[worker][d] = Intersect(boxes[worker][d], {0, shape[d]});
  }
  return clipped;
}

int64_t SmallestPart(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice,
                     int dimension) {
  for (size_t round = 0; round < choice.size(); ++round) {
    if (choice[round] == dimension) extent /= grid.factor(static_cast<int>(round));
  }
  return extent;
}

namespace {

bool MustDivide(const SplitRules& rules, int dimension) {
  return rules.equally &&
         std::find(rules.uneven.begin(), rules.uneven.end(), dimension) == rules.uneven.end();
}

/*! \brief Return the extent of the largest part of a dimension after the rounds of `choice`. */
int64_t LargestPart(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice,
                    int dimension) {
  for (size_t round = 0; round < choice.size(); ++round) {
    const int64_t parts = grid.factor(static_cast<int>(round));
    if (choice[round] == dimension) extent = (extent + parts - 1) / parts;
  }
  return extent;
}

/*! \brief Return the first axis that `axis` is nested in and that has a part of several elements,
 * or -1. */
int FindOuter(const std::vector<int64_t>& extents, const WorkerGrid& grid,
              const std::vector<int>& choice, int axis, const SplitRules& rules) {
  for (const auto& [inner, outer] : rules.nestings) {
    if (inner == axis && LargestPart(extents[outer], grid, choice, outer) > 1) return outer;
  }
  return -1;
}

/*! \brief Return why a dimension cannot be split in round choice.size(). */
std::string ExplainRefusal(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                           const std::vector<int>& choice, int dimension, const SplitRules& rules) {
  const int outer = FindOuter(extents, grid, choice, dimension, rules);
  if (outer >= 0) return Text("it is nested in ", outer, ", which has parts of several elements");
  const int64_t parts = grid.factor(static_cast<int>(choice.size()));
  return Text("its smallest part has extent ",
              SmallestPart(extents[dimension], grid, choice, dimension), ", and ", parts,
              (MustDivide(rules, dimension) ? " equal" : ""), " parts are asked for");
}

}  // namespace

bool CanSplit(const std::vector<int64_t>& extents, const WorkerGrid& grid,
              const std::vector<int>& choice, int dimension, const SplitRules& rules) {
  const int64_t parts = grid.factor(static_cast<int>(choice.size()));
  const int64_t smallest = SmallestPart(extents[dimension], grid, choice, dimension);
  // All parts are as long as the smallest one if all earlier splits were equal.
  return smallest >= parts && !(MustDivide(rules, dimension) && smallest % parts != 0) &&
         FindOuter(extents, grid, choice, dimension, rules) < 0;
}

std::vector<int> SplittableDimensions(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                                      const std::vector<int>& choice, const SplitRules& rules) {
  std::vector<int> dimensions;
  for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
    if (CanSplit(extents, grid, choice, d, rules)) dimensions.push_back(d);
  }
  return dimensions;
}

std::string NameOf(Subject subject) {
  return (subject.is_tensor ? "tensor " : "operator ") + std::to_string(subject.id);
}

const std::vector<int64_t>& ExtentsOf(const Graph& graph, Subject subject) {
  return subject.is_tensor ? graph.tensor(subject.id).shape : graph.op(subject.id).axis_extents;
}

SplitRules RulesOf(const Graph& graph, Subject subject) {
  if (subject.is_tensor) return {graph.splits_equally(), graph.UnevenDimensions(subject.id), {}};
  return {graph.splits_equally(), graph.UnevenAxes(subject.id), graph.Nestings(subject.id)};
}

bool MayReplicate(const Graph& graph, Subject subject) {
  return subject.is_tensor ? graph.tensor(subject.id).MayReplicate()
                           : graph.op(graph.ChoiceRoot(subject.id)).may_repeat;
}

std::vector<int> ListChoices(const Graph& graph, const WorkerGrid& grid, Subject subject,
                             const std::vector<int>& prefix) {
  std::vector<int> choices =
      SplittableDimensions(ExtentsOf(graph, subject), grid, prefix, RulesOf(graph, subject));
  if (choices.empty() || MayReplicate(graph, subject)) choices.push_back(kReplicated);
  return choices;
}

void CheckChoice(const std::string& subject, const std::vector<int64_t>& extents,
                 const WorkerGrid& grid, const std::vector<int>& choice, const SplitRules& rules) {
  const int rounds = static_cast<int>(choice.size());
  if (rounds > grid.num_rounds()) {
    Refuse(subject, " has ", rounds, " choices for ", grid.num_rounds(), " rounds of factors ",
           FormatList(grid.factors()));
  }
  std::vector<int> prefix;
  for (int round = 0; round < rounds; ++round) {
    const int dimension = choice[round];
    if (dimension < kReplicated || dimension >= static_cast<int>(extents.size())) {
      Refuse(subject, " has choice ", dimension, " in round ", round, ": it has dimensions 0 to ",
             static_cast<int>(extents.size()) - 1, ", or -1 for replicated");
    }
    if (dimension != kReplicated && !CanSplit(extents, grid, prefix, dimension, rules)) {
      Refuse(subject, " of extents ", FormatList(extents), " cannot be split along ", dimension,
             " in round ", round, ": ", ExplainRefusal(extents, grid, prefix, dimension, rules));
    }
    prefix.push_back(dimension);
  }
}

void CheckChoice(const Graph& graph, const WorkerGrid& grid, Subject subject,
                 const std::vector<int>& choice) {
  CheckChoice(NameOf(subject), ExtentsOf(graph, subject), grid, choice, RulesOf(graph, subject));
}

Boxes SplitAxes(const Graph& graph, const WorkerGrid& grid, int op,
                const std::vector<int>& choice) {
  return SplitBoxes(graph.op(op).axis_extents, grid, choice, graph.splits_equally());
}

Boxes SplitTensor(const Graph& graph, const WorkerGrid& grid, int tensor,
                  const std::vector<int>& layout) {
  return SplitBoxes(graph.tensor(tensor).shape, grid, layout, graph.splits_equally());
}

Boxes ScatterShards(const Boxes& shards, const std::vector<int64_t>& shape, const WorkerGrid& grid,
                    const std::vector<int>& layout) {
  if (shape.empty()) return {1, 0};
  int largest_dimension = 0;
  int64_t largest_extent = -1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    const int64_t extent = SmallestPart(shape[d], grid, layout, d);
    if (extent > largest_extent) {
      largest_dimension = d;
      largest_extent = extent;
    }
  }
  Boxes parts = shards;
  for (int worker = 0; worker < shards.count(); ++worker) {
    for (size_t round = 0; round < layout.size(); ++round) {
      if (layout[round] != kReplicated) continue;
      Interval& interval = parts[worker][largest_dimension];
      interval = SplitPart(interval, grid.digit(worker, static_cast<int>(round)),
                           grid.factor(static_cast<int>(round)));
    }
  }
  return parts;
}

}  // namespace tofu
