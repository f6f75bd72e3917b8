/*!
 * \file geometry.h
 * \brief Workers, and the splits of axes and tensors among them.
 */
#ifndef TOFU_CORE_GEOMETRY_GEOMETRY_H_
#define TOFU_CORE_GEOMETRY_GEOMETRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/geometry/box.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Part `part` of `parts` of an interval [b, b + e): [b + part * e // parts, b + (part + 1)
 * * e // parts). */
inline Interval SplitPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t extent = whole.end - whole.begin;
  return {whole.begin + part * extent / parts, whole.begin + (part + 1) * extent / parts};
}

/*!
 * \brief The workers of k = k1 * ... * km. Digit i of a worker belongs to round i; digit 0 is the
 * most significant.
 *
 * Round i is also level i of the interconnect: two workers read from each other across the level of
 * their first different digit. Levels may have prices, the cost of a byte that crosses them, and
 * latencies, the cost of a fetch that does.
 */
class WorkerGrid {
 public:
  /*! \throws std::invalid_argument if a factor is below 2 or the product above 65,536, if there are
   * prices but not a positive one per round, or latencies without prices or not a non-negative one
   * per round */
  explicit WorkerGrid(std::vector<int64_t> factors, std::vector<double> prices = {},
                      std::vector<double> latencies = {});

  int num_workers() const { return num_workers_; }
  int num_rounds() const { return static_cast<int>(factors_.size()); }
  int64_t factor(int round) const { return factors_[round]; }
  const std::vector<int64_t>& factors() const { return factors_; }
  int digit(int worker, int round) const {
    return digits_[static_cast<size_t>(worker) * factors_.size() + round];
  }
  /*! \brief The grid of the first `rounds` rounds. */
  WorkerGrid Prefix(int rounds) const;

  /*! \brief Return true if levels have prices. Otherwise each byte costs 1. */
  bool has_prices() const { return !prices_.empty(); }
  double price(int level) const { return prices_[level]; }
  double latency(int level) const { return latencies_.empty() ? 0 : latencies_[level]; }
  /*! \brief The level between two different workers. */
  int CrossedLevel(int worker, int other) const;

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

/*! \brief The part of an equal split that may overlap: if `parts` does not divide the extent, it is
 * rounded up, and a part includes the first element of the next one. Parts of parts lie within
 * them. */
inline Interval SplitEqualPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t begin = SplitPart(whole, part, parts).begin;
  return {begin, begin + (whole.end - whole.begin + parts - 1) / parts};
}

/*!
 * \brief Every worker's part of [0, extents). Round i splits dimension choice[i], or nothing if it
 * is kReplicated. If `equally`, parts are those of SplitEqualPart.
 *
 * For an operator's axis extents these are axis boxes, for a tensor's shape they are shards.
 */
Boxes SplitBoxes(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                 const std::vector<int>& choice, bool equally = false);

/*! \brief Return true if the parts of some extent cannot be equal and disjoint. */
bool HasRest(const std::vector<int64_t>& extents, const WorkerGrid& grid,
             const std::vector<int>& choice);

/*!
 * \brief Cut overlapping parts to disjoint ones: each ends where the next begins, in each
 * dimension.
 *
 * The results are what other workers read. They are never empty, and disjoint parts stay as they
 * are.
 */
Boxes OwnBoxes(const Boxes& parts);

/*! \brief The region of each worker, not clipped to [0, shape). `choice` determines which axes are
 * narrowed. If `exact`, a row holds even if none of its axes is. */
Boxes ComputeRegions(const std::vector<Row>& rows, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice, bool exact = false);

/*! \brief Empty the regions of workers whose part does not touch a tensor that lacks a dimension.
 */
void LeaveOut(const Absent& absent, const Boxes& axis_boxes, const std::vector<int>& choice,
              Boxes* regions);

/*! \brief Cut boxes to [0, shape). */
Boxes ClipBoxes(const Boxes& boxes, const std::vector<int64_t>& shape);

/*! \brief The extent of the smallest part of a dimension after the rounds of `choice`. */
int64_t SmallestPart(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice,
                     int dimension);

/*! \brief Return true if the parts of a dimension after the rounds of `choice` can be split into
 * `parts` more: each is long enough and, if `equally`, divisible. */
bool CanSplit(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice, int dimension,
              int64_t parts, bool equally);

/*! \brief Dimensions that can be split in round choice.size(), ascending. If `equally`, only
 * divisible or `uneven` ones. */
std::vector<int> SplittableDimensions(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                                      const std::vector<int>& choice, bool equally = false,
                                      const std::vector<int>& uneven = {});

/*! \brief An operator or a tensor. */
struct Subject {
  bool is_tensor;
  int id;
};

/*! \brief "tensor 3" or "operator 5". */
std::string NameOf(Subject subject);

/*! \brief The shape of a tensor, or the axes of an operator. */
const std::vector<int64_t>& ExtentsOf(const Graph& graph, Subject subject);

/*! \brief Dimensions whose parts may overlap in a graph that splits equally. */
std::vector<int> UnevenOf(const Graph& graph, Subject subject);

/*! \brief Return true if the search may replicate the subject although it can be split. */
bool MayReplicate(const Graph& graph, Subject subject);

/*! \brief Choices in round prefix.size(): feasible dimensions, then kReplicated if the subject may
 * be replicated or nothing else is feasible. */
std::vector<int> ListChoices(const Graph& graph, const WorkerGrid& grid, Subject subject,
                             const std::vector<int>& prefix);

/*!
 * \brief Check a choice, one value per round, for feasibility.
 * \\throws std::invalid_argument naming `subject`, the dimension and the round
 */
void CheckChoice(const std::string& subject, const std::vector<int64_t>& extents,
                 const WorkerGrid& grid, const std::vector<int>& choice, bool equally,
                 const std::vector<int>& uneven = {});

/*! \brief The same for an operator or a tensor of a graph. */
void CheckChoice(const Graph& graph, const WorkerGrid& grid, Subject subject,
                 const std::vector<int>& choice);

/*! \brief The parts of an operator's axes, and of a tensor. */
Boxes SplitAxes(const Graph& graph, const WorkerGrid& grid, int op, const std::vector<int>& choice);
Boxes SplitTensor(const Graph& graph, const WorkerGrid& grid, int tensor,
                  const std::vector<int>& layout);

/*!
 * \brief Cut each shard among the workers that hold copies of it, along its largest dimension (the
 * first of equal ones).
 *
 * The parts are disjoint, cover the shard, and may be empty.
 */
Boxes ScatterShards(const Boxes& shards, const std::vector<int64_t>& shape, const WorkerGrid& grid,
                    const std::vector<int>& layout);

bool HasReplicatedRound(const std::vector<int>& choice);

/*! \brief By worker: its digits in the rounds with is_counted(round), as one number. */
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
 * 0 if this differs between elements or groups.
 *
 * `numbers` has the group of each worker, from 0 on. Boxes lie within the shape. Also returns 0 if
 * the boxes' ends cut the shape into far more pieces than there are boxes.
 */
int64_t CountCoverage(const Boxes& boxes, const std::vector<int>& numbers,
                      const std::vector<int64_t>& shape);

}  // namespace tofu

#endif  // TOFU_CORE_GEOMETRY_GEOMETRY_H_
