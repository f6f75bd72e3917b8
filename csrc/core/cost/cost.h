/*!
 * \file cost.h
 * \brief The cost of a plan: bytes that workers read from each other.
 *
 * The cost is a sum over incidences. An incidence depends on one operator choice and one tensor
 * layout:
 *  - a read incidence is everything that operators which share fetches read of one tensor. Each
 * worker pays once for each distinct region, for the elements that its own shard lacks;
 *  - a write incidence is one output that is read. Each worker pays for the elements of its shard
 * that other workers produced, for every partial result separately.
 *
 * EvaluatePlan computes the sum directly. The searches tabulate the same functions.
 */
#ifndef TOFU_CORE_COST_COST_H_
#define TOFU_CORE_COST_COST_H_

#include <cstdint>
#include <vector>

#include "core/cost/sharing.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief The largest cost of an incidence, far above any real plan. It is the cost of an in-place
 * write to elements that the worker does not hold. */
constexpr int64_t kForbiddenBytes = int64_t{1} << 50;

/*! \brief The error of a plan that costs this much. */
constexpr char kTooManyBytes[] =
    "a plan costs 2^50 bytes or nanoseconds or more, as far as costs are counted";

struct Incidence {
  bool is_write = false;
  int op = -1;  // producer, or first reader; all readers have its choice and axis extents
  int tensor = -1;
  int64_t group = -1;
  int phase = 0;
  int sharers = -1;                 // reads: number of those that share their fetches (sharing.h)
  std::vector<const Input*> reads;  // distinct accesses; empty for writes
  const Output* write = nullptr;
};

/*! \brief Numbers that are equal for equal rows. */
std::vector<int64_t> DescribeRows(const std::vector<Row>& rows);

/*! \brief Numbers that are equal for inputs that are equal but for their tensor. */
std::vector<int64_t> DescribeAccess(const Input& input);

/*! \brief Everything but the choices that the bytes of an incidence depend on. */
std::vector<int64_t> DescribeIncidence(const Graph& graph, const Incidence& incidence);

/*! \brief List all incidences that can cost anything: by tensor, writes first. Reads with equal
 * `sharers` are one incidence. Keeps pointers into `graph`. */
std::vector<Incidence> CollectIncidences(const Graph& graph, const Sharers& sharers);

/*! \brief Regions of an incidence at one choice of its operator. */
struct PlacedAccess {
  std::vector<Boxes> regions;  // reads: by access, clipped
  std::vector<std::vector<char>>
      is_charged;            // reads: [access][worker]; false for repeated regions and for addends
  std::vector<Boxes> held;   // regions that must equal the shard, not clipped
  std::vector<int> replica;  // writes: workers with equal numbers exchange their parts
  Boxes own;  // writes: the part of each region that others take (OwnBoxes), clipped; empty if
              // parts do not overlap
  std::vector<int> addend;  // writes: workers with equal numbers have parts of one addend
  int64_t copies = 0;  // writes: how often the regions of each replica number cover every element
                       // (CountCoverage), or 0
  bool is_partial = false;  // writes: some round reduces, so every holder has a partial sum
};

/*! \brief The region of an input that each worker needs. It may reach outside the tensor. */
Boxes AskedRegions(const Input& input, const std::vector<int64_t>& shape, const Boxes& axis_boxes,
                   const std::vector<int>& choice);

/*! \brief The region of an output that each worker computes. It may reach outside the tensor. */
Boxes WrittenRegions(const Output& output, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice);

PlacedAccess PlaceAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                         const std::vector<int>& choice);

/*! \brief The disjoint boxes that a worker takes of `box` from `holder`, which may be the worker
 * itself. Of overlapping parts of one addend, each element is taken once. */
std::vector<Box> TakenBoxes(const PlacedAccess& access, int worker, int holder,
                            const Interval* box);

/*! \brief Shards of an incidence at one layout of its tensor. */
struct PlacedLayout {
  Boxes shards;
  std::vector<Boxes> reach;  // with prices, [level][worker]: the elements that workers with equal
                             // digits above the level hold together
  Boxes scattered;           // parts of the shards that are reduced before they are gathered
  bool can_scatter = false;  // partial results are reduced in two stages: some round replicates,
                             // and the tensor is large unless small sums are staged, too
};

PlacedLayout PlaceLayout(const Graph& graph, int tensor, const WorkerGrid& grid,
                         const std::vector<int>& layout);

/*! \brief Return true if the operator writes the tensor in place. */
bool IsInPlace(const Incidence& incidence);

/*! \brief Bytes of an incidence, at most kForbiddenBytes. With prices, its cost instead: the sum
 * over levels of price times bytes plus latency times fetches, rounded. */
int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*! \brief By level of the interconnect: bytes that cross it, and fetches that do, of all workers. A
 * sum in two stages is two fetches. */
struct LevelCounts {
  std::vector<int64_t> bytes;
  std::vector<int64_t> waits;
};

/*! \brief Counts of one incidence, on a grid with prices. */
LevelCounts CountLevels(const Incidence& incidence, const PlacedAccess& access,
                        const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*! \brief What the search pays for the bytes of a tensor that workers hold, rounded; 0 without a
 * price. */
int64_t HoldingCost(const Graph& graph, int tensor, const WorkerGrid& grid,
                    const std::vector<int>& layout);

/*! \brief By worker: its REPLICATE digits as one number. A worker takes parts from holders with its
 * own number. */
std::vector<int> ReplicaNumbers(const Output& output, const WorkerGrid& grid,
                                const std::vector<int>& choice);

/*! \brief Return true if some round of `choice` splits a reduced axis of the output. */
bool IsPartialResult(const Output& output, const std::vector<int>& choice);

/*! \brief Return true if the worker receives zeros in place of the input: it is not part 0 of an
 * addend axis. */
bool IsZeroAddend(const Input& input, const WorkerGrid& grid, const std::vector<int>& choice,
                  int worker);

/*! \brief Return true if accesses with equal regions can share a fetch. Fill values matter only
 * outside the tensor. */
bool IsSameRegion(const Interval* a, double fill_a, const Interval* b, double fill_b,
                  const std::vector<int64_t>& shape);

/*! \brief Choices of operators and layouts of tensors, by id, one value per round. */
struct Assignment {
  std::vector<std::vector<int>> operators;
  std::vector<std::vector<int>> tensors;
  // By tensor, or empty: a fetched region is kept for all readers, in all groups and phases. Not
  // allowed for tensors that are written in place.
  std::vector<char> kept = {};
  // By tensor, or empty: each operator fetches its regions itself, even within a group.
  std::vector<char> reread = {};

  bool IsKept(int tensor) const { return !kept.empty() && kept[tensor] != 0; }
};

/*! \brief Bytes of one incidence of a plan. */
struct CostItem {
  int64_t group;
  int tensor;
  int phase;
  int64_t bytes;
  bool is_output;
};

struct PlanCost {
  int64_t total_bytes = 0;
  std::vector<int64_t> round_bytes;  // increments by round; they sum to the total
  std::vector<CostItem> items;       // those with a cost
};

/*!
 * \brief Check sizes, feasibility, and shared and tied choices of an assignment.
 * \\throws std::invalid_argument naming the operator or tensor and the rule
 */
void CheckAssignment(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Evaluate a plan, incidence by incidence. On a grid with prices, all bytes are costs, and
 * holding costs are included. \\throws std::invalid_argument for plans that cannot run,
 * std::overflow_error with kTooManyBytes */
PlanCost EvaluatePlan(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Count the bytes and the fetches of a plan that cross each level of the interconnect.
 * Throws as EvaluatePlan does. */
LevelCounts CountLevels(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Effects of keeping the fetched regions of a tensor. */
struct Keeping {
  int64_t saved_bytes = 0;  // that no worker would fetch again
  int64_t held_bytes = 0;   // of the kept regions, over all workers
};

/*! \brief Effects by tensor; 0 for tensors that are kept. Throws as EvaluatePlan does. */
std::vector<Keeping> WeighKeeping(const Graph& graph, const WorkerGrid& grid,
                                  const Assignment& assignment);

}  // namespace tofu

#endif  // TOFU_CORE_COST_COST_H_
