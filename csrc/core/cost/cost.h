/*!
 * \file cost.h
 * \brief The cost of a plan: bytes that workers read from each other, one incidence (operator
 * choice, tensor layout) at a time.
 *
 * The cost of a plan is a sum over incidences, and an incidence depends on one operator choice and
 * one tensor layout alone:
 *  - a read incidence is all that the operators that share fetches need of one tensor: each
 * worker is charged once for each distinct region, for the cells that its own shard does not hold;
 *  - a write incidence is one output that somebody reads: each worker is charged for the cells of
 * its shard that other workers produced, every partial result by itself. See docs/ for the
 * definition in words; `EvaluatePlan` is the plain sum, and the search tabulates the same two
 * functions.
 */
#ifndef TOFU_CORE_COST_COST_H_
#define TOFU_CORE_COST_COST_H_

#include <cstdint>
#include <vector>

#include "core/cost/sharing.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief The price of an operator that writes in place what its worker does not hold, and the most
 * that an incidence costs; far above any real plan. */
constexpr int64_t kForbiddenBytes = int64_t{1} << 50;

/*! \brief The message for a plan that costs as much. */
constexpr char kTooManyBytes[] =
    "a plan costs 2^50 bytes or nanoseconds or more, as far as costs are counted";

struct Incidence {
  bool is_write = false;
  int op = -1;  // the producer, or the first reader of the group (all of them share one choice and
                // the same axis extents)
  int tensor = -1;
  int64_t group = -1;
  int phase = 0;
  int sharers = -1;                 // reads: their number (sharing.h)
  std::vector<const Input*> reads;  // distinct accesses; empty for writes
  const Output* write = nullptr;
};

/*! \brief A list of numbers that is equal for equal rows. */
std::vector<int64_t> DescribeRows(const std::vector<Row>& rows);

/*! \brief The same for all that an input says, save for the tensor. */
std::vector<int64_t> DescribeAccess(const Input& input);

/*! \brief All that the bytes of an incidence depend on, short of the choices. */
std::vector<int64_t> DescribeIncidence(const Graph& graph, const Incidence& incidence);

/*! \brief All incidences that can cost anything, by tensor, writes first, where operators of equal
 * `sharers` (sharing.h) share their fetches. Pointers lead into `graph`. */
std::vector<Incidence> CollectIncidences(const Graph& graph, const Sharers& sharers);

/*! \brief The operator's side of an incidence at one choice: what each worker needs, or produces.
 */
struct PlacedAccess {
  std::vector<Boxes> regions;  // reads: one for each access, clipped
  std::vector<std::vector<char>>
      is_charged;            // reads: [access][worker], false for repeated regions and addends
  std::vector<Boxes> held;   // regions that must equal the shard, unclipped
  std::vector<int> replica;  // writes: workers of equal numbers exchange their parts
  Boxes own;  // writes: of each worker's region what others take (OwnBoxes), clipped; without
              // workers where regions are as they are
  std::vector<int> addend;  // writes: workers of equal numbers have parts of one addend
  int64_t copies = 0;  // writes: where the regions of each replica number, as far as others take
                       // them, cover every cell so many times (coverage.h); else 0
  bool is_partial =
      false;  // writes: some step reduces, so that every holder has a partial sum of each cell
};

/*! \brief The region of an input that each worker asks for, which may reach outside the tensor. */
Boxes AskedRegions(const Input& input, const std::vector<int64_t>& shape, const Boxes& axis_boxes,
                   const std::vector<int>& choice);

/*! \brief The region of an output that each worker computes, which may reach outside the tensor. */
Boxes WrittenRegions(const Output& output, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice);

PlacedAccess PlaceAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                         const std::vector<int>& choice);

/*! \brief What a worker takes of a box from a holder of its replica number, which may be itself:
 * of its own region all, and where parts overlap nothing of one addend twice. Disjoint. */
std::vector<Box> TakenBoxes(const PlacedAccess& access, int worker, int holder,
                            const Interval* box);

/*! \brief The tensor's side of an incidence at one layout. */
struct PlacedLayout {
  Boxes shards;
  std::vector<Boxes> reach;  // [level][worker]: what the workers of equal digits above that level
                             // hold together, the whole tensor first; on a grid with prices alone
  Boxes scattered;           // parts of the shards that are summed before they are gathered
  bool can_scatter = false;  // partial results are reduced in two stages: replicated at some
                             // step, and large, unless small sums are staged as well
};

PlacedLayout PlaceLayout(const Graph& graph, int tensor, const WorkerGrid& grid,
                         const std::vector<int>& layout);

/*! \brief Whether the operator writes the tensor in place. */
bool IsInPlace(const Incidence& incidence);

/*! \brief Bytes of an incidence, kForbiddenBytes at most. On a grid with prices, what they cost:
 * the sum over the levels of price times bytes and latency times waits, rounded. */
int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*! \brief By level of the interconnect: the bytes that cross it, and how many fetches do, all
 * workers at once. What is summed in two stages is two fetches. */
struct LevelCounts {
  std::vector<int64_t> bytes;
  std::vector<int64_t> waits;
};

/*! \brief Those of an incidence, on a grid with prices. */
LevelCounts CountLevels(const Incidence& incidence, const PlacedAccess& access,
                        const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor);

/*! \brief What the search pays for all that workers hold of a tensor, rounded; 0 without a price.
 */
int64_t HoldingCost(const Graph& graph, int tensor, const WorkerGrid& grid,
                    const std::vector<int>& layout);

/*! \brief The number of each worker's REPLICATE digits: a worker takes an output's parts from
 * holders of its own number. */
std::vector<int> ReplicaNumbers(const Output& output, const WorkerGrid& grid,
                                const std::vector<int>& choice);

/*! \brief Whether some step of `choice` splits a reduced axis of the output. */
bool IsPartialResult(const Output& output, const std::vector<int>& choice);

/*! \brief Whether the worker gets zeros in place of the input: it is not part 0 of an addend axis.
 */
bool IsZeroAddend(const Input& input, const WorkerGrid& grid, const std::vector<int>& choice,
                  int worker);

/*! \brief Whether two accesses of equal unclipped regions can share a fetch: fills matter only
 * outside the tensor. */
bool IsSameRegion(const Interval* a, double fill_a, const Interval* b, double fill_b,
                  const std::vector<int64_t>& shape);

/*! \brief What each operator and tensor takes at each step, by id. */
struct Assignment {
  std::vector<std::vector<int>> operators;
  std::vector<std::vector<int>> tensors;
  // By tensor, or empty: a region of it that was fetched stays for all of its readers, whatever
  // their groups and phases. No tensor that is written in place.
  std::vector<char> kept = {};
  // By tensor, or empty: each operator fetches its regions anew and lets go of them, also where
  // operators of one group would share.
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
  std::vector<int64_t>
      step_bytes;  // increments of the geometry of the first i levels; they sum to the total
  std::vector<CostItem> items;  // those that cost something
};

/*!
 * \brief Checks that an assignment fits graph and grid: sizes, feasibility, shared and tied
 * choices.
 * \throws std::invalid_argument naming the operator or tensor and the rule.
 */
void CheckAssignment(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief The cost of a plan, incidence by incidence, without tables; on a grid with prices, all
 * that is called bytes is what these cost, and so is what holding costs. \throws
 * std::invalid_argument for plans that cannot run, std::overflow_error with kTooManyBytes.
 */
PlanCost EvaluatePlan(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief The bytes of a plan that cross each level of the interconnect, which sum to its
 * total_bytes, and its fetches that do. Throws as EvaluatePlan does. */
LevelCounts CountLevels(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment);

/*! \brief What it would mean to keep the fetched regions of a tensor. */
struct Keeping {
  int64_t saved_bytes = 0;  // that no worker would read again
  int64_t held_bytes = 0;   // of the regions that would stay, over all workers
};

/*! \brief The same for every tensor, by id; 0 for those that are kept already. Throws as
 * EvaluatePlan does. */
std::vector<Keeping> WeighKeeping(const Graph& graph, const WorkerGrid& grid,
                                  const Assignment& assignment);

}  // namespace tofu

#endif  // TOFU_CORE_COST_COST_H_
