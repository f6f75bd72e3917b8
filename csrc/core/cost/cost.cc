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
  if (incidence.is_write) {
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
  return placed;
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
  for (size_t level = 0; grid.has_prices() && level < layout.size(); ++level) {
    std::vector<int> layout_above(layout.size(), kReplicated);
    std::copy_n(layout.begin(), level, layout_above.begin());
    placed.reach.push_back(SplitTensor(graph, grid, tensor_id, layout_above));
  }
  return placed;
}

namespace {

/*!
 * \brief Add the elements of access `i` that each level adds to those within reach below it.
 *
 * The rounds of a layout cut the box of the rounds above, so workers with equal digits hold it
 * together. Copies are read within their own replica. With a single level, these are the elements
 * that the worker's shard lacks.
 */
void AddReadCells(const PlacedAccess& access, size_t i, const PlacedLayout& layout, size_t levels,
                  int64_t* cells) {
  const Boxes& regions = access.regions[i];
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (!access.is_charged[i][worker]) continue;
    int64_t cells_above = Volume(regions[worker], regions.rank());
    for (size_t level = 0; level < levels; ++level) {
      const Boxes& boxes_below = level + 1 < levels ? layout.reach[level + 1] : layout.shards;
      const int64_t cells_below =
          IntersectionVolume(regions[worker], boxes_below[worker], regions.rank());
      cells[level] += cells_above - cells_below;
      cells_above = cells_below;
    }
  }
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

/*! \brief Add elements by level, and one fetch at each level that they cross. */
void AddFetch(const std::vector<int64_t>& cells, LevelCounts* counts) {
  for (size_t level = 0; level < cells.size(); ++level) {
    counts->bytes[level] += cells[level];
    counts->waits[level] += cells[level] > 0;
  }
}

/*! \brief Count elements of every worker's box that it takes from other workers, by level. */
void AddGatherCells(const PlacedAccess& access, const Boxes& boxes, const WorkerGrid& grid,
                    LevelCounts* counts) {
  std::vector<int64_t> cells(counts->bytes.size(), 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int holder = 0; holder < boxes.count(); ++holder) {
      if (holder == worker || access.replica[holder] != access.replica[worker]) continue;
      cells[grid.CrossedLevel(worker, holder)] += TakenCells(access, worker, holder, boxes[worker]);
    }
  }
  AddFetch(cells, counts);
}

/*! \brief Count elements of every worker's shard that other holders of the shard have summed, by
 * level. */
void AddJoinCells(const PlacedLayout& layout, const WorkerGrid& grid, LevelCounts* counts) {
  const int rank = layout.shards.rank();
  std::vector<int64_t> cells(counts->bytes.size(), 0);
  for (int worker = 0; worker < layout.shards.count(); ++worker) {
    for (int other = 0; other < layout.shards.count(); ++other) {
      if (other == worker || !IsEqualBox(layout.shards[worker], layout.shards[other], rank))
        continue;
      cells[grid.CrossedLevel(worker, other)] += Volume(layout.scattered[other], rank);
    }
  }
  AddFetch(cells, counts);
}

bool IsScattered(const Incidence& incidence, const PlacedAccess& access,
                 const PlacedLayout& layout) {
  return incidence.is_write && access.is_partial && layout.can_scatter;
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
  const std::vector<int64_t> zeros(grid.num_rounds(), 0);
  LevelCounts counts{zeros, zeros};
  if (!incidence.is_write) {
    for (size_t i = 0; i < access.regions.size(); ++i) {
      std::vector<int64_t> cells(grid.num_rounds(), 0);
      AddReadCells(access, i, layout, cells.size(), cells.data());
      AddFetch(cells, &counts);
    }
  } else if (IsScattered(incidence, access, layout)) {
    AddGatherCells(access, layout.scattered, grid, &counts);
    AddJoinCells(layout, grid, &counts);
  } else {
    AddGatherCells(access, layout.shards, grid, &counts);
  }
  for (int64_t& cells : counts.bytes) cells *= tensor.element_bytes;
  for (int64_t& waits : counts.waits) waits *= tensor.times;
  return counts;
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
    for (int level = 0; level < grid.num_rounds(); ++level) {
      cost += grid.price(level) * static_cast<double>(counts.bytes[level]) +
              grid.latency(level) * static_cast<double>(counts.waits[level]);
    }
    return std::llround(std::min(cost, static_cast<double>(kForbiddenBytes)));
  }
  int64_t cells = 0;
  if (!incidence.is_write) {
    for (size_t i = 0; i < access.regions.size(); ++i) AddReadCells(access, i, layout, 1, &cells);
  } else if (!IsScattered(incidence, access, layout)) {
    cells = GatherCells(access, layout.shards);
  } else {
    // A reduce-scatter, after which every worker gathers the parts of its shard that it did not
    // sum.
    cells = GatherCells(access, layout.scattered) + TotalVolume(layout.shards) -
            TotalVolume(layout.scattered);
  }
  return std::min(tensor.element_bytes * cells, kForbiddenBytes);
}

}  // namespace tofu
