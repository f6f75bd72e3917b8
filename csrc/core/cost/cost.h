/*!
 * \file cost.h
 * \brief The cost of a plan: the bytes that workers read from each other.
 *
 * The cost is a sum over *incidences*. An incidence depends on the choice of one operator and the
 * layout of one tensor:
 *  - A read incidence is all reads of one tensor by operators that share fetches. Each worker pays
 * once for each distinct region: for the elements that its own shard lacks.
 *  - A write incidence is one output that is read. Each worker pays for the elements of its shard
 * that other workers computed, and for every partial result separately.
 *
 * EvaluatePlan computes the sum directly. The searches tabulate the cost of each incidence.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/cost/sharing.h"
#include "core/geometry/geometry.h"
#include "core/geometry/overlaps.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief The largest cost of an incidence, far above the cost of any real plan. It forbids
 * in-place writes to elements that the worker does not hold. */
constexpr int64_t kForbiddenBytes = int64_t{1} << 50;

/*! \brief The error message for a plan that costs kForbiddenBytes or more. */
constexpr char kTooManyBytes[] =
    "a plan costs 2^50 bytes or nanoseconds or more, as far as costs are counted";

struct Incidence {
  bool is_write = false;
  int op = -1;  // the producer or first reader; all readers have its choice and axis extents
  int tensor = -1;
  int64_t group = -1;
  int phase = 0;
  int sharers = -1;                 // reads that share fetches have equal numbers (sharing.h)
  std::vector<const Input*> reads;  // distinct accesses; empty for writes
  const Output* write = nullptr;
};

/*! \brief Return numbers that are equal for equal rows. */
std::vector<int64_t> DescribeRows(const std::vector<Row>& rows);

/*! \brief Return numbers that are equal for inputs that differ only in their tensor. */
std::vector<int64_t> DescribeAccess(const Input& input);

/*! \brief Return everything that the bytes of an incidence depend on, except the choices. */
std::vector<int64_t> DescribeIncidence(const Graph& graph, const Incidence& incidence);

/*! \brief List all incidences that can cost anything, ordered by tensor, with writes first. Reads
 * with equal `sharers` are one incidence. Keeps pointers into `graph`. */
std::vector<Incidence> CollectIncidences(const Graph& graph, const Sharers& sharers);

/*! \brief Regions that an incidence reads or writes for one choice of its operator. */
struct PlacedAccess {
  std::vector<Boxes> regions;  // reads: by access, clipped to the tensor
  // Reads: [access][worker]; false if the worker has fetched the region before, or receives zeros.
  std::vector<std::vector<char>> is_charged;
  std::vector<Boxes> held;   // reads: regions that must equal the shard, not clipped
  std::vector<int> replica;  // writes: workers with equal numbers exchange their parts
  // Writes: the part of each region that other workers read (OwnBoxes), clipped. Empty if parts do
  // not overlap.
  Boxes own;
  std::vector<int> addend;  // writes: workers with equal numbers have parts of one addend
  int64_t copies = 0;  // writes: how often the regions of each replica number cover every element
                       // (CountCoverage), or 0
  // For each round except the last, the access on the grid up to this round. Only for graphs that
  // relay in groups, on grids with prices.
  std::vector<PlacedAccess> prefixes;
  bool is_partial = false;  // writes: some round reduces, so all workers have partial results
  // In a table: by region, the overlaps with the layouts of the table. Empty if they are computed
  // directly.
  std::vector<Overlaps> overlaps;
};

/*! \brief Return the region of an input that each worker needs. It may exceed the tensor. */
Boxes FindNeededRegions(const Input& input, const std::vector<int64_t>& shape,
                        const Boxes& axis_boxes, const std::vector<int>& choice);

/*! \brief Return the region of an output that each worker computes. It may exceed the tensor. */
Boxes WrittenRegions(const Output& output, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice);

PlacedAccess PlaceAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                         const std::vector<int>& choice);

/*! \brief Return the disjoint boxes within `box` that a worker reads from `holder`, which may be
 * the worker itself. If parts of one addend overlap, each element is read from one of them. */
std::vector<Box> TakenBoxes(const PlacedAccess& access, int worker, int holder,
                            const Interval* box);

/*! \brief Shards of an incidence's tensor for one layout. */
struct PlacedLayout {
  Boxes shards;
  std::vector<PlacedLayout> prefixes;  // if the grid has prices: by round but the last, the layout
                                       // on the grid of the first rounds
  int64_t cells = 0;                   // elements of all shards
  Boxes scattered;  // the part of the shard that each worker reduces before others gather it
  int64_t scattered_cells = 0;
  // True if partial results are reduced in parts and then gathered: some round replicates, and the
  // tensor is large or the graph stages small sums.
  bool can_scatter = false;
  // In a table: the numbers of the boxes in its BoxLists.
  int shards_list = -1;
  int scattered_list = -1;
};

/*! \brief The most workers for which exchanged elements are counted pair by pair. */
constexpr int kMostPairedWorkers = 64;

PlacedLayout PlaceLayout(const Graph& graph, int tensor, const WorkerGrid& grid,
                         const std::vector<int>& layout);

/*! \brief Return true if shards are the regions that an in-place write must hold. */
bool IsHeld(const PlacedAccess& access, const Boxes& shards);

/*! \brief Return true if the partial results of a write are reduced in parts and then gathered. */
bool IsScattered(const PlacedAccess& access, const PlacedLayout& layout);

/*! \brief Return true if the operator writes the tensor in place. */
bool IsInPlace(const Incidence& incidence);

/*! \brief Return the bytes of an incidence, at most kForbiddenBytes. If the grid has prices, return
 * PriceOf instead. */
int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*!
 * \brief The bytes of all workers, and the fetches, that cross each round.
 *
 * A fetch counts in the first round of each level that it crosses. A sum that is reduced and then
 * gathered counts as two fetches. The sum of the bytes is the same as on a grid without prices.
 *
 * If the graph relays in groups, the first i rounds are a plan in which each group of workers
 * counts as one worker. The bytes that cross round i are the bytes of the first i rounds minus the
 * bytes of the first i - 1. So if several workers of a group need an element, it crosses the round
 * once, and their partial results are added before they cross it.
 */
struct LevelCounts {
  std::vector<int64_t> bytes;
  std::vector<int64_t> waits;
  // With relays: bytes that are counted too often, because the regions of a group may have gaps.
  int64_t excess_bytes = 0;
};

/*! \brief Count the elements that workers fetch from each other, without regard to rounds: for
 * region `fetch` of a read, or for a write. */
int64_t CountCells(const PlacedAccess& access, size_t fetch, const PlacedLayout& layout,
                   bool is_write);

/*! \brief The counts of an incidence in a graph that relays in groups. */
class RelayedCounter {
 public:
  RelayedCounter(const WorkerGrid& grid, const Tensor& tensor);

  void Clear();
  /*! \brief Add a fetch, or two if a sum is reduced and then gathered. totals[i] has its elements
   * on the grid of the first i + 1 rounds, where each group counts as one worker. */
  void Add(const std::vector<int64_t>& totals, bool is_scattered);
  const LevelCounts& counts() const { return counts_; }

 private:
  const WorkerGrid& grid_;
  const Tensor& tensor_;
  LevelCounts counts_;
  std::vector<int64_t> crossing_;  // elements that cross each round
};

/*! \brief Return the cost: the sum over rounds of price times bytes plus latency times fetches,
 * rounded, and at most kForbiddenBytes. */
int64_t PriceOf(const LevelCounts& counts, const WorkerGrid& grid);

/*! \brief Return the counts of one incidence, on a grid with prices. */
LevelCounts CountLevels(const Incidence& incidence, const PlacedAccess& access,
                        const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*! \brief Return the cost of the memory in which workers hold a tensor, rounded. It is 0 without a
 * holding price. */
int64_t HoldingCost(const Graph& graph, int tensor, const WorkerGrid& grid,
                    const std::vector<int>& layout);

/*! \brief Return the choices of the first rounds. */
inline std::vector<int> FirstRounds(const std::vector<int>& choices, int rounds) {
  return {choices.begin(), choices.begin() + rounds};
}

/*! \brief Return true if some round of `choice` splits a reduced axis of the output. */
bool IsPartialResult(const Output& output, const std::vector<int>& choice);

/*! \brief Return true if the worker receives zeros in place of the input, because it does not have
 * part 0 of an addend axis. */
bool IsZeroAddend(const Input& input, const WorkerGrid& grid, const std::vector<int>& choice,
                  int worker);

/*! \brief Return true if accesses with equal regions can share a fetch. Fill values only matter
 * outside the tensor. */
bool IsSameRegion(const Interval* a, double fill_a, const Interval* b, double fill_b,
                  const std::vector<int64_t>& shape);

/*! \brief A plan: the choice of each operator and the layout of each tensor, by id, with one value
 * per round. */
struct Assignment {
  std::vector<std::vector<int>> operators;
  std::vector<std::vector<int>> tensors;
  // By tensor: true if workers keep fetched regions for all readers, in all groups and phases. Not
  // allowed for tensors that are written in place. Empty if no tensor is kept.
  std::vector<char> kept = {};
  // By tensor: true if each operator fetches its regions itself, even within a group. Empty if no
  // tensor is reread.
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
  std::vector<int64_t> round_bytes;  // bytes that each round adds; they sum to the total
  std::vector<CostItem> items;       // the incidences that cost anything
};

/*!
 * \brief Check that an assignment has the right sizes, is feasible, and respects shared choices and
 * tied layouts.
 * \throws std::invalid_argument naming the operator or tensor and the rule
 */
void CheckAssignment(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Evaluate a plan, incidence by incidence. On a grid with prices, costs take the place of
 * bytes. Holding costs are included. \throws std::invalid_argument for plans that cannot run,
 * std::overflow_error with kTooManyBytes */
PlanCost EvaluatePlan(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Count the bytes and the fetches of a plan that cross each round. If the grid has no
 * prices, all rounds are one level. Throws like EvaluatePlan. */
LevelCounts CountLevels(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief Effects of keeping the fetched regions of a tensor. */
struct Keeping {
  int64_t saved_bytes = 0;  // bytes that workers would not fetch again
  int64_t held_bytes = 0;   // bytes of the kept regions, over all workers
};

/*! \brief Return the effects for each tensor, 0 if it is kept already. Throws like EvaluatePlan. */
std::vector<Keeping> WeighKeeping(const Graph& graph, const WorkerGrid& grid,
                                  const Assignment& assignment);

}  // namespace tofu
