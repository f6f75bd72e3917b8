/*!
 * \file cost.cc
 * \brief Bytes of incidences.
 */
#include "core/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace tofu {

namespace {

/*! \brief Return, for each worker, its digits in the rounds in which parts are combined in one of
 * `ways`, as one number. */
std::vector<int> NumberCombined(const Output& output, const WorkerGrid& grid,
                                const std::vector<int>& choice,
                                std::initializer_list<Combine> ways) {
  return NumberDigits(grid, choice.size(), [&](int round) {
    const Combine way =
        choice[round] == kReplicated ? Combine::kReplicate : output.combine[choice[round]];
    return std::find(ways.begin(), ways.end(), way) != ways.end();
  });
}

std::vector<int> AddendNumbers(const Output& output, const WorkerGrid& grid,
                               const std::vector<int>& choice) {
  return NumberCombined(output, grid, choice, {Combine::kReduce, Combine::kOverlapAdd});
}

std::vector<int> FirstRounds(const std::vector<int>& choice, int rounds) {
  return {choice.begin(), choice.begin() + rounds};
}

/*! \brief Return the least box around the charged boxes of each group of neighbouring workers,
 * empty if there are none. */
Boxes UniteGroups(const Boxes& boxes, const std::vector<char>& is_charged, int groups) {
  const int rank = boxes.rank();
  const int of_group = boxes.count() / groups;
  Boxes united(groups, rank);
  std::vector<char> has_any(groups, 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    if (!is_charged[worker] || Volume(boxes[worker], rank) == 0) continue;
    const int group = worker / of_group;
    for (int d = 0; d < rank; ++d) {
      const Interval& added = boxes[worker][d];
      Interval& all = united[group][d];
      all = has_any[group]
                ? Interval{std::min(all.begin, added.begin), std::max(all.end, added.end)}
                : added;
    }
    has_any[group] = 1;
  }
  return united;
}

/*! \brief Make boxes empty that are equal to the others of their numbers. */
void ClearEqual(const Boxes& others, Boxes* boxes) {
  for (int number = 0; number < boxes->count(); ++number) {
    Interval* box = (*boxes)[number];
    if (IsEqualBox(box, others[number], boxes->rank())) std::fill_n(box, boxes->rank(), Interval{});
  }
}

/*! \brief Count the elements of a box that the other box of this number lacks. */
int64_t MissingVolume(const Boxes& boxes, const Boxes& others, int number) {
  return Volume(boxes[number], boxes.rank()) -
         IntersectionVolume(boxes[number], others[number], boxes.rank());
}

}  // namespace

std::vector<int> ReplicaNumbers(const Output& output, const WorkerGrid& grid,
                                const std::vector<int>& choice) {
  return NumberCombined(output, grid, choice, {Combine::kReplicate});
}

bool IsPartialResult(const Output& output, const std::vector<int>& choice) {
  return std::any_of(choice.begin(), choice.end(), [&](int axis) {
    return axis != kReplicated && output.combine[axis] == Combine::kReduce;
  });
}

bool IsZeroAddend(const Input& input, const WorkerGrid& grid, const std::vector<int>& choice,
                  int worker) {
  if (!input.is_read) return true;
  if (input.addend_axes.empty()) return false;
  for (int round = 0; round < static_cast<int>(choice.size()); ++round) {
    if (grid.digit(worker, round) == 0) continue;
    if (std::find(input.addend_axes.begin(), input.addend_axes.end(), choice[round]) !=
        input.addend_axes.end())
      return true;
  }
  return false;
}

bool IsSameRegion(const Interval* a, double fill_a, const Interval* b, double fill_b,
                  const std::vector<int64_t>& shape) {
  bool reaches_outside = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (a[d] != b[d]) return false;
    reaches_outside = reaches_outside || !Contains({0, shape[d]}, a[d]);
  }
  return !reaches_outside || fill_a == fill_b;
}

Boxes AskedRegions(const Input& input, const std::vector<int64_t>& shape, const Boxes& axis_boxes,
                   const std::vector<int>& choice) {
  Boxes regions = ComputeRegions(input.rows, shape, axis_boxes, choice, input.is_exact);
  LeaveOut(input.absent, axis_boxes, choice, &regions);
  return input.is_clipped ? ClipBoxes(regions, shape) : regions;
}

Boxes WrittenRegions(const Output& output, const std::vector<int64_t>& shape,
                     const Boxes& axis_boxes, const std::vector<int>& choice) {
  Boxes regions = ComputeRegions(output.rows, shape, axis_boxes, choice);
  LeaveOut(output.absent, axis_boxes, choice, &regions);
  return regions;
}

PlacedAccess PlaceAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                         const std::vector<int>& choice) {
  PlacedAccess placed;
  const Boxes axis_boxes = SplitAxes(graph, grid, incidence.op, choice);
  const std::vector<int64_t>& shape = graph.tensor(incidence.tensor).shape;
  placed.relays = grid.has_prices() && graph.relays_in_groups();
  if (incidence.is_write) {
    for (int rounds = 1; placed.relays && rounds < grid.num_rounds(); ++rounds) {
      placed.prefixes.push_back(
          PlaceAccess(graph, incidence, grid.UnpricedPrefix(rounds), FirstRounds(choice, rounds)));
    }
    const auto find_regions = [&](const Boxes& boxes) {
      return ClipBoxes(WrittenRegions(*incidence.write, shape, boxes, choice), shape);
    };
    placed.regions.push_back(find_regions(axis_boxes));
    placed.replica = ReplicaNumbers(*incidence.write, grid, choice);
    placed.is_partial = IsPartialResult(*incidence.write, choice);
    const bool overlaps =
        graph.splits_equally() && HasRest(graph.op(incidence.op).axis_extents, grid, choice);
    if (overlaps) {
      placed.own = find_regions(OwnBoxes(axis_boxes));
      placed.addend = AddendNumbers(*incidence.write, grid, choice);
    }
    placed.copies =
        CountCoverage(overlaps ? placed.own : placed.regions.front(), placed.replica, shape);
    return placed;
  }
  std::vector<Boxes> needed_regions;
  for (const Input* input : incidence.reads) {
    needed_regions.push_back(AskedRegions(*input, shape, axis_boxes, choice));
    std::vector<char> charged_workers(grid.num_workers());
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      bool is_new = !IsZeroAddend(*input, grid, choice, worker);
      for (size_t earlier = 0; is_new && earlier + 1 < needed_regions.size(); ++earlier) {
        is_new = !placed.is_charged[earlier][worker] ||
                 !IsSameRegion(needed_regions[earlier][worker], incidence.reads[earlier]->fill,
                               needed_regions.back()[worker], input->fill, shape);
      }
      charged_workers[worker] = is_new;
    }
    placed.is_charged.push_back(std::move(charged_workers));
    placed.regions.push_back(ClipBoxes(needed_regions.back(), shape));
    if (input->is_held) placed.held.push_back(needed_regions.back());
  }
  JoinRegions(grid, &placed);
  return placed;
}

void JoinRegions(const WorkerGrid& grid, PlacedAccess* access) {
  access->joint.clear();
  if (!access->relays) return;
  for (size_t i = 0; i < access->regions.size(); ++i) {
    std::vector<Boxes> by_round;
    int groups = 1;
    for (int round = 0; round + 1 < grid.num_rounds(); ++round) {
      groups *= static_cast<int>(grid.factor(round));
      Boxes united = UniteGroups(access->regions[i], access->is_charged[i], groups);
      for (const std::vector<Boxes>& earlier : access->joint) ClearEqual(earlier[round], &united);
      by_round.push_back(std::move(united));
    }
    access->joint.push_back(std::move(by_round));
  }
}

std::vector<Box> TakenBoxes(const PlacedAccess& access, int worker, int holder,
                            const Interval* box) {
  const Boxes& regions = access.regions.front();
  const int rank = regions.rank();
  const bool is_cut = holder != worker && access.own.count() > 0;
  Box taken(rank);
  if (!Intersect(box, is_cut ? access.own[holder] : regions[holder], rank, taken.data())) return {};
  if (!is_cut || access.addend[holder] != access.addend[worker]) return {taken};
  std::vector<Box> missing_boxes;
  Subtract(std::move(taken), Box(regions[worker], regions[worker] + rank), &missing_boxes);
  return missing_boxes;
}

PlacedLayout PlaceLayout(const Graph& graph, int tensor_id, const WorkerGrid& grid,
                         const std::vector<int>& layout) {
  const Tensor& tensor = graph.tensor(tensor_id);
  PlacedLayout placed;
  placed.shards = SplitTensor(graph, grid, tensor_id, layout);
  placed.can_scatter = (graph.stages_small_sums() || !tensor.is_replicable) &&
                       !tensor.shape.empty() && HasReplicatedRound(layout);
  if (placed.can_scatter)
    placed.scattered = ScatterShards(placed.shards, tensor.shape, grid, layout);
  for (int rounds = 1; grid.has_prices() && rounds < grid.num_rounds(); ++rounds) {
    placed.prefixes.push_back(
        PlaceLayout(graph, tensor_id, grid.UnpricedPrefix(rounds), FirstRounds(layout, rounds)));
  }
  return placed;
}

namespace {

/*! \brief Count the elements of the region `i` of each worker that its shard lacks. */
int64_t ReadCells(const PlacedAccess& access, size_t i, const Boxes& shards) {
  const Boxes& regions = access.regions[i];
  int64_t cells = 0;
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (access.is_charged[i][worker]) cells += MissingVolume(regions, shards, worker);
  }
  return cells;
}

/*!
 * \brief Count the elements of region `i` that workers read across each round.
 *
 * The rounds of a layout cut the box of the rounds above, so workers with equal digits hold it
 * together. Copies are read within their own replica.
 */
std::vector<int64_t> ReadCellsByRound(const PlacedAccess& access, size_t i,
                                      const PlacedLayout& layout, const WorkerGrid& grid) {
  const Boxes& regions = access.regions[i];
  std::vector<int64_t> cells(grid.num_rounds(), 0);
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (!access.is_charged[i][worker]) continue;
    int64_t cells_above = Volume(regions[worker], regions.rank());
    for (size_t round = 0; round < cells.size(); ++round) {
      const Boxes& below = round + 1 < cells.size() ? layout.prefixes[round].shards : layout.shards;
      const int group = worker / (regions.count() / below.count());
      const int64_t cells_below = IntersectionVolume(regions[worker], below[group], regions.rank());
      cells[round] += cells_above - cells_below;
      cells_above = cells_below;
    }
  }
  return cells;
}

/*! \brief Count the elements that enter the groups of each round: those of the union of their
 * regions that the shards of the group lack. */
std::vector<int64_t> CountEntering(const PlacedAccess& access, size_t i,
                                   const PlacedLayout& layout) {
  std::vector<int64_t> entering;
  for (size_t round = 0; round < access.joint[i].size(); ++round) {
    const Boxes& regions = access.joint[i][round];
    entering.push_back(0);
    for (int group = 0; group < regions.count(); ++group)
      entering.back() += MissingVolume(regions, layout.prefixes[round].shards, group);
  }
  entering.push_back(ReadCells(access, i, layout.shards));
  return entering;
}

/*! \brief Count the elements of TakenBoxes. Lists no boxes if parts do not overlap. */
int64_t TakenCells(const PlacedAccess& access, int worker, int holder, const Interval* box) {
  const Boxes& regions = access.regions.front();
  if (access.own.count() == 0) return IntersectionVolume(box, regions[holder], regions.rank());
  int64_t cells = 0;
  for (const Box& taken : TakenBoxes(access, worker, holder, box)) cells += Volume(taken);
  return cells;
}

/*! \brief Count elements of every worker's box that other workers with its replica number produced.
 */
int64_t GatherCells(const PlacedAccess& access, const Boxes& boxes) {
  const Boxes& regions = access.regions.front();
  int64_t cells = 0;
  for (int worker = 0; worker < boxes.count(); ++worker) {
    if (access.copies > 0) {
      cells += access.copies * Volume(boxes[worker], boxes.rank()) -
               IntersectionVolume(boxes[worker], regions[worker], boxes.rank());
      continue;
    }
    for (int holder = 0; holder < boxes.count(); ++holder) {
      if (holder == worker || access.replica[holder] != access.replica[worker]) continue;
      cells += TakenCells(access, worker, holder, boxes[worker]);
    }
  }
  return cells;
}

int64_t TotalVolume(const Boxes& boxes) {
  int64_t cells = 0;
  for (int worker = 0; worker < boxes.count(); ++worker)
    cells += Volume(boxes[worker], boxes.rank());
  return cells;
}

bool IsHeld(const PlacedAccess& access, const Boxes& shards) {
  for (const Boxes& regions : access.held) {
    for (int worker = 0; worker < regions.count(); ++worker) {
      if (!IsEqualBox(regions[worker], shards[worker], regions.rank())) return false;
    }
  }
  return true;
}

/*! \brief Count elements of every worker's box that it takes from other workers, by round. */
std::vector<int64_t> GatherCellsByRound(const PlacedAccess& access, const Boxes& boxes,
                                        const WorkerGrid& grid) {
  std::vector<int64_t> cells(grid.num_rounds(), 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int holder = 0; holder < boxes.count(); ++holder) {
      if (holder == worker || access.replica[holder] != access.replica[worker]) continue;
      cells[grid.CrossedRound(worker, holder)] += TakenCells(access, worker, holder, boxes[worker]);
    }
  }
  return cells;
}

/*! \brief Count elements of every worker's shard that other holders of the shard have summed. */
int64_t JoinCells(const PlacedLayout& layout) {
  return TotalVolume(layout.shards) - TotalVolume(layout.scattered);
}

std::vector<int64_t> JoinCellsByRound(const PlacedLayout& layout, const WorkerGrid& grid) {
  const int rank = layout.shards.rank();
  std::vector<int64_t> cells(grid.num_rounds(), 0);
  for (int worker = 0; worker < layout.shards.count(); ++worker) {
    for (int other = 0; other < layout.shards.count(); ++other) {
      if (other == worker || !IsEqualBox(layout.shards[worker], layout.shards[other], rank))
        continue;
      cells[grid.CrossedRound(worker, other)] += Volume(layout.scattered[other], rank);
    }
  }
  return cells;
}

bool IsScattered(const PlacedAccess& access, const PlacedLayout& layout) {
  return access.is_partial && layout.can_scatter;
}

/*! \brief Elements of a write that workers take from other workers: first parts or partial results,
 * then parts of sums. */
struct WriteCells {
  int64_t gathered = 0;
  int64_t joined = 0;
};

WriteCells CountWriteCells(const PlacedAccess& access, const PlacedLayout& layout) {
  if (!IsScattered(access, layout)) return {GatherCells(access, layout.shards), 0};
  return {GatherCells(access, layout.scattered), JoinCells(layout)};
}

/*! \brief Counts by round of one incidence. */
class RoundCounter {
 public:
  RoundCounter(const WorkerGrid& grid, const Tensor& tensor)
      : grid_(grid), tensor_(tensor), counts_{Zeros(), Zeros()} {}

  /*! \brief Add the elements that cross each round. */
  void AddFetch(const std::vector<int64_t>& cells) {
    bool is_counted = false;  // at this level
    for (int round = 0; round < grid_.num_rounds(); ++round) {
      if (grid_.BeginsLevel(round)) is_counted = false;
      counts_.bytes[round] += tensor_.element_bytes * cells[round];
      if (cells[round] == 0 || is_counted) continue;
      counts_.waits[round] += tensor_.times;
      is_counted = true;
    }
  }

  /*! \brief Add the elements that enter the groups of each round. Groups of one round are parts of
   * the groups before. The union of their regions may be counted as larger than it is. */
  void AddEntering(std::vector<int64_t> entering) {
    for (size_t round = entering.size() - 1; round > 0; --round)
      entering[round - 1] = std::min(entering[round - 1], entering[round]);
    for (size_t round = entering.size() - 1; round > 0; --round)
      entering[round] -= entering[round - 1];
    AddFetch(entering);
  }

  LevelCounts Take() { return std::move(counts_); }

 private:
  std::vector<int64_t> Zeros() const { return std::vector<int64_t>(grid_.num_rounds(), 0); }

  const WorkerGrid& grid_;
  const Tensor& tensor_;
  LevelCounts counts_;
};

void AddRelayedWrite(const PlacedAccess& access, const PlacedLayout& layout,
                     RoundCounter* counter) {
  std::vector<int64_t> gathered;
  std::vector<int64_t> joined;
  const auto add = [&](const WriteCells& cells) {
    gathered.push_back(cells.gathered);
    joined.push_back(cells.joined);
  };
  for (size_t round = 0; round < access.prefixes.size(); ++round)
    add(CountWriteCells(access.prefixes[round], layout.prefixes[round]));
  add(CountWriteCells(access, layout));
  counter->AddEntering(std::move(gathered));
  counter->AddEntering(std::move(joined));
}

}  // namespace

int64_t HoldingCost(const Graph& graph, int tensor_id, const WorkerGrid& grid,
                    const std::vector<int>& layout) {
  const Tensor& tensor = graph.tensor(tensor_id);
  if (tensor.holding_price <= 0) return 0;
  const int64_t cells = TotalVolume(SplitTensor(graph, grid, tensor_id, layout));
  return std::llround(tensor.holding_price * static_cast<double>(cells * tensor.element_bytes));
}

LevelCounts CountLevels(const Incidence& incidence, const PlacedAccess& access,
                        const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor) {
  RoundCounter counter(grid, tensor);
  if (!incidence.is_write) {
    for (size_t i = 0; i < access.regions.size(); ++i) {
      if (access.relays) {
        counter.AddEntering(CountEntering(access, i, layout));
      } else {
        counter.AddFetch(ReadCellsByRound(access, i, layout, grid));
      }
    }
  } else if (access.relays) {
    AddRelayedWrite(access, layout, &counter);
  } else if (IsScattered(access, layout)) {
    counter.AddFetch(GatherCellsByRound(access, layout.scattered, grid));
    counter.AddFetch(JoinCellsByRound(layout, grid));
  } else {
    counter.AddFetch(GatherCellsByRound(access, layout.shards, grid));
  }
  return counter.Take();
}

bool IsInPlace(const Incidence& incidence) {
  return std::any_of(incidence.reads.begin(), incidence.reads.end(),
                     [](const Input* input) { return input->is_held; });
}

int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor) {
  if (!incidence.is_write && !IsHeld(access, layout.shards)) return kForbiddenBytes;
  if (grid.has_prices()) {
    const LevelCounts counts = CountLevels(incidence, access, layout, grid, tensor);
    double cost = 0;
    for (int round = 0; round < grid.num_rounds(); ++round) {
      cost += grid.price(round) * static_cast<double>(counts.bytes[round]) +
              grid.latency(round) * static_cast<double>(counts.waits[round]);
    }
    return std::llround(std::min(cost, static_cast<double>(kForbiddenBytes)));
  }
  int64_t cells = 0;
  if (incidence.is_write) {
    const WriteCells of_write = CountWriteCells(access, layout);
    cells = of_write.gathered + of_write.joined;
  } else {
    for (size_t i = 0; i < access.regions.size(); ++i) cells += ReadCells(access, i, layout.shards);
  }
  return std::min(tensor.element_bytes * cells, kForbiddenBytes);
}

}  // namespace tofu
