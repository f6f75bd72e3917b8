/*!
 * \file geometry.h
 * \brief Workers, and the splits of axes and tensors among them.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/geometry/box.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Return part number `part` of `parts` of an interval [b, b + e):
 * [b + part * e // parts, b + (part + 1) * e // parts). */
inline Interval SplitPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t extent = whole.end - whole.begin;
  return {whole.begin + part * extent / parts, whole.begin + (part + 1) * extent / parts};
}

/*!
 * \brief The workers, numbered in the mixed radix of the factors k = k1 * ... * km. Digit i of a
 * worker is its part in round i. Digit 0 is the most significant.
 *
 * Two workers read from each other across the round of their first different digit. A round may
 * have a price, the cost of a byte that crosses it, and a latency, the cost of a fetch that crosses
 * it. Neighbouring rounds of equal price and latency are one *level* of the interconnect.
 */
class WorkerGrid {
 public:
  /*! \throws std::invalid_argument if a factor is below 2, the product is above 65,536, prices are
   * not one positive number per round, or latencies are not one non-negative number per round or
   * are passed without prices */
  explicit WorkerGrid(std::vector<int64_t> factors, std::vector<double> prices = {},
                      std::vector<double> latencies = {});

  int num_workers() const { return num_workers_; }
  int num_rounds() const { return static_cast<int>(factors_.size()); }
  int64_t factor(int round) const { return factors_[round]; }
  const std::vector<int64_t>& factors() const { return factors_; }
  int digit(int worker, int round) const {
    return digits_[static_cast<size_t>(worker) * factors_.size() + round];
  }
  /*! \brief Return the grid of the first `rounds` rounds. */
  WorkerGrid Prefix(int rounds) const;
  /*! \brief Return the grid of the first `rounds` rounds, without prices. */
  WorkerGrid UnpricedPrefix(int rounds) const;
  /*! \brief Return the grid of the first `rounds` rounds as one level, where a byte costs 1. */
  WorkerGrid OneLevel(int rounds, double latency) const;

  /*! \brief Return true if rounds have prices. Otherwise each byte costs 1. */
  bool has_prices() const { return !prices_.empty(); }
  double price(int round) const { return prices_[round]; }
  double latency(int round) const { return latencies_.empty() ? 0 : latencies_[round]; }
  /*! \brief Return true if the round is the first of a level. */
  bool BeginsLevel(int round) const {
    return round == 0 || (has_prices() && (price(round - 1) != price(round) ||
                                           latency(round - 1) != latency(round)));
  }
  /*! \brief Return the round across which two different workers read from each other. */
  int CrossedRound(int worker, int other) const;

 private:
  std::vector<int64_t> factors_;
  std::vector<double> prices_;
  std::vector<double> latencies_;
  std::vector<int> digits_;
  int num_workers_ = 1;
};

/*! \brief One box of `rank` intervals for each worker. */
class Boxes {
 public:
  Boxes() = default;
  Boxes(int count, int rank)
      : count_(count), rank_(rank), flat_(static_cast<size_t>(count) * rank) {}

  int count() const { return count_; }
  int rank() const { return rank_; }
  Interval* operator[](int worker) { return flat_.data() + static_cast<size_t>(worker) * rank_; }
  const Interval* operator[](int worker) const {
    return flat_.data() + static_cast<size_t>(worker) * rank_;
  }

 private:
  int count_ = 0;
  int rank_ = 0;
  std::vector<Interval> flat_;
};

/*! \brief Return the number of elements of all boxes. Elements of several boxes count several
 * times. */
int64_t TotalVolume(const Boxes& boxes);

/*! \brief Return the distinct intervals of some workers' boxes in a dimension, ascending. */
std::vector<Interval> ListParts(const Boxes& boxes, const std::vector<int>& workers, int dimension);

/*! \brief Return a part of an equal split. Parts may overlap: [0, 5) in 2 parts gives [0, 3) and
 * [2, 5). */
inline Interval SplitEqualPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t begin = SplitPart(whole, part, parts).begin;
  return {begin, begin + (whole.end - whole.begin + parts - 1) / parts};
}

/*!
 * \brief Return every worker's part of [0, extents). Round i splits dimension choice[i], or nothing
 * if it is kReplicated. If `equally` is true, SplitEqualPart makes the parts.
 *
 * If `extents` are those of an operator's axes, the results are its parts. If `extents` is a
 * tensor's shape, they are shards.
 */
Boxes SplitBoxes(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                 const std::vector<int>& choice, bool equally = false);

/*! \brief Return true if some extent cannot be split into equal disjoint parts: 5 into 2. */
bool HasRest(const std::vector<int64_t>& extents, const WorkerGrid& grid,
             const std::vector<int>& choice);

/*!
 * \brief Cut overlapping parts, so that each ends where the next begins, in each dimension.
 *
 * Other workers read these disjoint parts. They are never empty. Disjoint parts stay unchanged.
 */
Boxes OwnBoxes(const Boxes& parts);

/*! \brief Return the region that each worker accesses, which may exceed the tensor. `choice` has
 * the axis that each round splits. Unless `exact` is true, a dimension is accessed completely if
 * none of its row's axes is split. */
Boxes ComputeRegions(const std::vector<Row>& rows, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice, bool exact = false);

/*! \brief Make a worker's region empty if its part does not access the tensor, such as an input of
 * a stack. */
void LeaveOut(const Absent& absent, const Boxes& axis_boxes, const std::vector<int>& choice,
              Boxes* regions);

/*! \brief Cut boxes to [0, shape). */
Boxes ClipBoxes(const Boxes& boxes, const std::vector<int64_t>& shape);

/*! \brief Return the extent of the smallest part of a dimension after the rounds of `choice`. */
int64_t SmallestPart(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice,
                     int dimension);

/*! \brief Rules by which the dimensions of a tensor, or the axes of an operator, can be split. */
struct SplitRules {
  bool equally = false;           // parts must be equal
  std::vector<int> uneven;        // dimensions whose parts may overlap nevertheless
  std::vector<Nesting> nestings;  // axes that can be split only after others
};

/*! \brief Return true if round choice.size() can split a dimension, after the rounds of `choice`.
 * Parts must be long enough and, if the rules ask for it, divisible. Axes in which the dimension is
 * nested must have parts of extent 1. */
bool CanSplit(const std::vector<int64_t>& extents, const WorkerGrid& grid,
              const std::vector<int>& choice, int dimension, const SplitRules& rules);

/*! \brief Return the dimensions that can be split in round choice.size(), ascending. */
std::vector<int> SplittableDimensions(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                                      const std::vector<int>& choice, const SplitRules& rules);

/*! \brief An operator or a tensor. */
struct Subject {
  bool is_tensor;
  int id;
};

/*! \brief Return "tensor 3" or "operator 5". */
std::string NameOf(Subject subject);

/*! \brief Return the shape of a tensor, or the extents of an operator's axes. */
const std::vector<int64_t>& ExtentsOf(const Graph& graph, Subject subject);

SplitRules RulesOf(const Graph& graph, Subject subject);

/*! \brief Return true if the search may replicate the subject although it can be split. */
bool MayReplicate(const Graph& graph, Subject subject);

/*! \brief Return the possible choices in round prefix.size(): feasible dimensions, then kReplicated
 * if the subject may be replicated or nothing else is feasible. */
std::vector<int> ListChoices(const Graph& graph, const WorkerGrid& grid, Subject subject,
                             const std::vector<int>& prefix);

/*!
 * \brief Check that a choice, with one value per round, is feasible.
 * \throws std::invalid_argument naming `subject`, the dimension and the round
 */
void CheckChoice(const std::string& subject, const std::vector<int64_t>& extents,
                 const WorkerGrid& grid, const std::vector<int>& choice, const SplitRules& rules);

void CheckChoice(const Graph& graph, const WorkerGrid& grid, Subject subject,
                 const std::vector<int>& choice);

/*! \brief Return every worker's part of an operator, as ranges of its axes. */
Boxes SplitAxes(const Graph& graph, const WorkerGrid& grid, int op, const std::vector<int>& choice);
Boxes SplitTensor(const Graph& graph, const WorkerGrid& grid, int tensor,
                  const std::vector<int>& layout);

/*!
 * \brief Divide each shard among the workers that hold copies of it, along its first largest
 * dimension.
 *
 * The parts are disjoint, cover the shard, and may be empty. A scalar has one part, of worker 0.
 */
Boxes ScatterShards(const Boxes& shards, const std::vector<int64_t>& shape, const WorkerGrid& grid,
                    const std::vector<int>& layout);

/*! \brief Return one number for each worker. Numbers are equal if the digits in all rounds with
 * is_counted(round) are equal.
 */
template <typename IsCounted>
std::vector<int> NumberDigits(const WorkerGrid& grid, size_t rounds, const IsCounted& is_counted) {
  std::vector<int> numbers(grid.num_workers(), 0);
  for (int round = 0; round < static_cast<int>(rounds); ++round) {
    if (!is_counted(round)) continue;
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      numbers[worker] =
          numbers[worker] * static_cast<int>(grid.factor(round)) + grid.digit(worker, round);
    }
  }
  return numbers;
}

/*!
 * \brief Return how often the boxes of each group of workers cover every element of [0, shape), or
 * 0 if this number differs between elements or groups.
 *
 * `numbers` has the group of each worker, from 0 on. Boxes must be inside the shape. The result is
 * also 0 if the boxes cut the shape into far more pieces than there are boxes.
 */
int64_t CountCoverage(const Boxes& boxes, const std::vector<int>& numbers,
                      const std::vector<int64_t>& shape);

}  // namespace tofu
