/*!
 * \file geometry.h
 * \brief Where things lie: the splitting rule, worker digits, axis boxes, shards and regions.
 */
#ifndef TOFU_CORE_GEOMETRY_GEOMETRY_H_
#define TOFU_CORE_GEOMETRY_GEOMETRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/geometry/box.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Part `part` of `parts` of an interval: [b + part * e // parts, b + (part + 1) * e //
 * parts). */
inline Interval SplitPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t extent = whole.end - whole.begin;
  return {whole.begin + part * extent / parts, whole.begin + (part + 1) * extent / parts};
}

/*!
 * \brief The workers of k = k1 * ... * km; digit 0 of a worker belongs to step 0 and is the most
 * significant.
 *
 * Step i is also level i of the interconnect: two workers whose first different digit is that of
 * step i read from each other across level i. Levels may have prices, the cost of one byte that
 * crosses them, and beside these latencies, the cost of a fetch that does, whatever its bytes.
 */
class WorkerGrid {
 public:
  /*! \throws std::invalid_argument where a factor is below 2, the product above 65,536, or there
   * are prices, but not a positive one for each step, or latencies, but no prices or not one for
   * each step that is not negative. */
  explicit WorkerGrid(std::vector<int64_t> factors, std::vector<double> prices = {},
                      std::vector<double> latencies = {});

  int num_workers() const { return num_workers_; }
  int num_steps() const { return static_cast<int>(factors_.size()); }
  int64_t factor(int step) const { return factors_[step]; }
  const std::vector<int64_t>& factors() const { return factors_; }
  int digit(int worker, int step) const {
    return digits_[static_cast<size_t>(worker) * factors_.size() + step];
  }
  /*! \brief The grid of the first `steps` steps. */
  WorkerGrid Prefix(int steps) const;

  /*! \brief Whether bytes have prices; else each costs 1. */
  bool has_prices() const { return !prices_.empty(); }
  double price(int level) const { return prices_[level]; }
  double latency(int level) const { return latencies_.empty() ? 0 : latencies_[level]; }
  /*! \brief The level that is crossed between two different workers. */
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

/*! \brief The same of equal extents: where `parts` does not divide, each is rounded up and has the
 * first cell of the next one as well. Parts of such parts lie within them. */
inline Interval SplitEqualPart(const Interval& whole, int64_t part, int64_t parts) {
  const int64_t begin = SplitPart(whole, part, parts).begin;
  return {begin, begin + (whole.end - whole.begin + parts - 1) / parts};
}

/*!
 * \brief Every worker's part of [0, extents) where step i splits dimension choice[i] (or none, for
 * kReplicated). `equally`: by SplitEqualPart.
 *
 * With an operator's axis extents these are axis boxes, with a tensor's shape they are shards.
 */
Boxes SplitBoxes(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                 const std::vector<int>& choice, bool equally = false);

/*! \brief Whether the parts that a choice makes of some of the extents cannot be equal and
 * disjoint.
 */
bool HasRest(const std::vector<int64_t>& extents, const WorkerGrid& grid,
             const std::vector<int>& choice);

/*!
 * \brief Of each worker's box what others read of it: its cells up to where the next part begins,
 * by dimension.
 *
 * These are disjoint where the parts that overlap are not, and never empty; parts that are disjoint
 * stay as they are.
 */
Boxes OwnBoxes(const Boxes& parts);

/*! \brief The region of each worker, unclipped: it may reach outside [0, shape). `choice` says
 * which axes are narrowed. */
Boxes ComputeRegions(const std::vector<Row>& rows, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice);

/*! \brief Empties the region of each worker whose part does not touch a tensor that lacks a
 * dimension. */
void LeaveOut(const Absent& absent, const Boxes& axis_boxes, const std::vector<int>& choice,
              Boxes* regions);

/*! \brief The boxes cut to [0, shape). */
Boxes ClipBoxes(const Boxes& boxes, const std::vector<int64_t>& shape);

/*! \brief The extent of the smallest part of a dimension that the steps of `choice` have split. */
int64_t SmallestPart(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice,
                     int dimension);

/*! \brief Whether the parts of a dimension that the steps of `choice` have split can be split once
 * more, into `parts`: each is long enough, and can be cut without a rest where that is asked for.
 */
bool CanSplit(int64_t extent, const WorkerGrid& grid, const std::vector<int>& choice, int dimension,
              int64_t parts, bool equally);

/*! \brief Dimensions that can be split at step choice.size(), ascending. `equally`: without a rest,
 * save for those that are `uneven`. */
std::vector<int> SplittableDimensions(const std::vector<int64_t>& extents, const WorkerGrid& grid,
                                      const std::vector<int>& choice, bool equally = false,
                                      const std::vector<int>& uneven = {});

/*! \brief An operator or a tensor: what a choice splits. */
struct Subject {
  bool is_tensor;
  int id;
};

/*! \brief "tensor 3" or "operator 5". */
std::string NameOf(Subject subject);

/*! \brief The shape of a tensor, or the axes of an operator. */
const std::vector<int64_t>& ExtentsOf(const Graph& graph, Subject subject);

/*! \brief The dimensions whose parts may overlap in a graph that splits equally. */
std::vector<int> UnevenOf(const Graph& graph, Subject subject);

/*! \brief Return true if the search may replicate the subject even where it can be split. */
bool MayReplicate(const Graph& graph, Subject subject);

/*! \brief Choices at step prefix.size(): feasible dimensions, then kReplicated if the subject may
 * be replicated or there is none. */
std::vector<int> ListChoices(const Graph& graph, const WorkerGrid& grid, Subject subject,
                             const std::vector<int>& prefix);

/*!
 * \brief Checks a whole choice (one per step) against the feasibility rule.
 * \throws std::invalid_argument naming `subject`, the dimension and the step.
 */
void CheckChoice(const std::string& subject, const std::vector<int64_t>& extents,
                 const WorkerGrid& grid, const std::vector<int>& choice, bool equally,
                 const std::vector<int>& uneven = {});

/*! \brief The same for an operator or a tensor of a graph. */
void CheckChoice(const Graph& graph, const WorkerGrid& grid, Subject subject,
                 const std::vector<int>& choice);

/*! \brief The parts of an operator's axes, and those of a tensor, at the choice of each. */
Boxes SplitAxes(const Graph& graph, const WorkerGrid& grid, int op, const std::vector<int>& choice);
Boxes SplitTensor(const Graph& graph, const WorkerGrid& grid, int tensor,
                  const std::vector<int>& layout);

/*!
 * \brief Cuts each shard among the workers that hold copies of it: the replicated digits split its
 * largest dimension further.
 *
 * The parts are disjoint, cover the shard and may be empty. The first of equally large dimensions
 * is taken.
 */
Boxes ScatterShards(const Boxes& shards, const std::vector<int64_t>& shape, const WorkerGrid& grid,
                    const std::vector<int>& layout);

bool HasReplicatedStep(const std::vector<int>& choice);

/*! \brief By worker: its digits at the steps for which is_counted(step) holds, as one number. */
template <typename IsCounted>
std::vector<int> NumberDigits(const WorkerGrid& grid, size_t steps, const IsCounted& is_counted) {
  std::vector<int> numbers(grid.num_workers(), 0);
  for (int step = 0; step < static_cast<int>(steps); ++step) {
    if (!is_counted(step)) continue;
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      numbers[worker] =
          numbers[worker] * static_cast<int>(grid.factor(step)) + grid.digit(worker, step);
    }
  }
  return numbers;
}

/*!
 * \brief How often the boxes of each group of workers cover every cell of [0, shape), or 0 if that
 * differs between cells or groups.
 *
 * `numbers` are the groups of the workers, from 0 on. Boxes lie within the shape. Takes time linear
 * in the workers, but for sorting, if the boxes tile. Returns 0 as well if the boxes' ends cut the
 * shape into far more pieces than there are boxes.
 */
int64_t CountCoverage(const Boxes& boxes, const std::vector<int>& numbers,
                      const std::vector<int64_t>& shape);

}  // namespace tofu

#endif  // TOFU_CORE_GEOMETRY_GEOMETRY_H_
