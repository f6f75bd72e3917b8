/*!
 * \file cost.cc
 */
#include "core/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/geometry/box_index.h"

namespace tofu {

bool IsHeld(const PlacedAccess& access, const Boxes& shards) {
  for (const Boxes& regions : access.held) {
    for (int worker = 0; worker < regions.count(); ++worker) {
      if (!IsEqualBox(regions[worker], shards[worker], regions.rank())) return false;
    }
  }
  return true;
}

bool IsScattered(const PlacedAccess& access, const PlacedLayout& layout) {
  return access.is_partial && layout.can_scatter;
}

namespace {

/*! \brief Count the elements of the region `i` of each worker that its shard lacks. */
int64_t ReadCells(const PlacedAccess& access, size_t i, const PlacedLayout& layout) {
  if (!access.overlaps.empty())
    return access.overlaps[i].region_volume() - access.overlaps[i].Count(layout.shards_list);
  const Boxes& regions = access.regions[i];
  const Boxes& shards = layout.shards;
  int64_t cells = 0;
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (!access.is_charged[i][worker]) continue;
    cells += Volume(regions[worker], regions.rank()) -
             IntersectionVolume(regions[worker], shards[worker], regions.rank());
  }
  return cells;
}

/*!
 * \brief Count the elements of region `i` that workers read across each round.
 *
 * The rounds of a layout cut the box of the rounds above, so the workers with equal first digits
 * hold this box together. Copies are read within their own replica.
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

/*! \brief Count the elements of TakenBoxes. Lists no boxes if parts do not overlap. */
int64_t TakenCells(const PlacedAccess& access, int worker, int holder, const Interval* box) {
  const Boxes& regions = access.regions.front();
  if (access.own.count() == 0) return IntersectionVolume(box, regions[holder], regions.rank());
  int64_t cells = 0;
  for (const Box& taken : TakenBoxes(access, worker, holder, box)) cells += Volume(taken);
  return cells;
}

/*! \brief GatherCells for parts that do not overlap. It does not visit all pairs of workers. */
int64_t GatherDisjointCells(const PlacedAccess& access, const Boxes& boxes) {
  const Boxes& regions = access.regions.front();
  std::map<int, std::vector<int>> workers_by_replica;
  for (int worker = 0; worker < regions.count(); ++worker) {
    workers_by_replica[access.replica[worker]].push_back(worker);
  }
  int64_t cells = 0;
  for (const auto& replica : workers_by_replica) {
    const std::vector<int>& workers = replica.second;
    Boxes held(static_cast<int>(workers.size()), regions.rank());
    for (int i = 0; i < held.count(); ++i)
      std::copy_n(regions[workers[i]], regions.rank(), held[i]);
    const BoxIndex index(held);
    for (int worker : workers) {
      if (worker >= boxes.count()) break;
      for (int holder : index.Find(boxes[worker])) {
        if (workers[holder] != worker)
          cells += IntersectionVolume(boxes[worker], held[holder], boxes.rank());
      }
    }
  }
  return cells;
}

/*! \brief Count elements of every worker's box that other workers with its replica number produced.
 * The boxes have `box_cells` elements, and the number `list` in a table. */
int64_t GatherCells(const PlacedAccess& access, const Boxes& boxes, int64_t box_cells, int list) {
  if (!access.overlaps.empty()) {
    const int64_t common = access.overlaps.front().Count(list);
    return access.copies > 0 ? access.copies * box_cells - common : common;
  }
  const Boxes& regions = access.regions.front();
  if (access.copies == 0 && access.own.count() == 0 && boxes.count() > kMostPairedWorkers) {
    return GatherDisjointCells(access, boxes);
  }
  int64_t cells = 0;
  for (int worker = 0; worker < boxes.count(); ++worker) {
    if (access.copies > 0) {
      cells += access.copies * Volume(boxes[worker], boxes.rank()) -
               IntersectionVolume(boxes[worker], regions[worker], boxes.rank());
      continue;
    }
    for (int holder = 0; holder < regions.count(); ++holder) {
      if (holder == worker || access.replica[holder] != access.replica[worker]) continue;
      cells += TakenCells(access, worker, holder, boxes[worker]);
    }
  }
  return cells;
}

/*! \brief Count elements of every worker's box that it takes from other workers, by round. */
std::vector<int64_t> GatherCellsByRound(const PlacedAccess& access, const Boxes& boxes,
                                        const WorkerGrid& grid) {
  std::vector<int64_t> cells(grid.num_rounds(), 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int holder = 0; holder < access.regions.front().count(); ++holder) {
      if (holder == worker || access.replica[holder] != access.replica[worker]) continue;
      cells[grid.CrossedRound(worker, holder)] += TakenCells(access, worker, holder, boxes[worker]);
    }
  }
  return cells;
}

/*! \brief Count elements of every worker's shard that other holders of the shard have summed, by
 * round. */
std::vector<int64_t> JoinCellsByRound(const PlacedLayout& layout, const WorkerGrid& grid) {
  const int rank = layout.shards.rank();
  std::vector<int64_t> cells(grid.num_rounds(), 0);
  for (int worker = 0; worker < layout.shards.count(); ++worker) {
    for (int other = 0; other < layout.scattered.count(); ++other) {
      if (other == worker || !IsEqualBox(layout.shards[worker], layout.shards[other], rank))
        continue;
      cells[grid.CrossedRound(worker, other)] += Volume(layout.scattered[other], rank);
    }
  }
  return cells;
}

/*! \brief Count the elements of a write that workers take from other workers: parts or partial
 * results, and then parts of sums. */
int64_t CountWriteCells(const PlacedAccess& access, const PlacedLayout& layout) {
  if (!IsScattered(access, layout))
    return GatherCells(access, layout.shards, layout.cells, layout.shards_list);
  return GatherCells(access, layout.scattered, layout.scattered_cells, layout.scattered_list) +
         layout.cells - layout.scattered_cells;
}

LevelCounts MakeZeros(const WorkerGrid& grid) {
  return {std::vector<int64_t>(grid.num_rounds(), 0), std::vector<int64_t>(grid.num_rounds(), 0)};
}

/*! \brief Add the elements that cross each round, in `fetches` fetches. */
void AddFetch(const std::vector<int64_t>& cells, int64_t fetches, const WorkerGrid& grid,
              const Tensor& tensor, LevelCounts* counts) {
  bool is_counted = false;  // at this level
  for (int round = 0; round < grid.num_rounds(); ++round) {
    if (grid.BeginsLevel(round)) is_counted = false;
    counts->bytes[round] += tensor.element_bytes * cells[round];
    if (cells[round] == 0 || is_counted) continue;
    counts->waits[round] += fetches * tensor.times;
    is_counted = true;
  }
}

void AddDirect(const PlacedAccess& access, const PlacedLayout& layout, bool is_write,
               const WorkerGrid& grid, const Tensor& tensor, LevelCounts* counts) {
  const auto add = [&](const std::vector<int64_t>& cells) {
    AddFetch(cells, 1, grid, tensor, counts);
  };
  if (!is_write) {
    for (size_t i = 0; i < access.regions.size(); ++i)
      add(ReadCellsByRound(access, i, layout, grid));
  } else if (IsScattered(access, layout)) {
    add(GatherCellsByRound(access, layout.scattered, grid));
    add(JoinCellsByRound(layout, grid));
  } else {
    add(GatherCellsByRound(access, layout.shards, grid));
  }
}

}  // namespace

int64_t HoldingCost(const Graph& graph, int tensor_id, const WorkerGrid& grid,
                    const std::vector<int>& layout) {
  const Tensor& tensor = graph.tensor(tensor_id);
  if (tensor.holding_price <= 0) return 0;
  const int64_t cells = TotalVolume(SplitTensor(graph, grid, tensor_id, layout));
  return std::llround(tensor.holding_price * static_cast<double>(cells * tensor.element_bytes));
}

int64_t CountCells(const PlacedAccess& access, size_t fetch, const PlacedLayout& layout,
                   bool is_write) {
  return is_write ? CountWriteCells(access, layout) : ReadCells(access, fetch, layout);
}

RelayedCounter::RelayedCounter(const WorkerGrid& grid, const Tensor& tensor)
    : grid_(grid), tensor_(tensor), counts_(MakeZeros(grid)), crossing_(grid.num_rounds()) {}

void RelayedCounter::Clear() {
  std::fill(counts_.bytes.begin(), counts_.bytes.end(), 0);
  std::fill(counts_.waits.begin(), counts_.waits.end(), 0);
  counts_.excess_bytes = 0;
}

void RelayedCounter::Add(const std::vector<int64_t>& totals, bool is_scattered) {
  int64_t most = 0;  // more rounds may read fewer elements: regions with gaps count as boxes
  for (size_t round = 0; round < totals.size(); ++round) {
    crossing_[round] = std::max<int64_t>(totals[round] - most, 0);
    most = std::max(most, totals[round]);
  }
  AddFetch(crossing_, is_scattered ? 2 : 1, grid_, tensor_, &counts_);
  counts_.excess_bytes += tensor_.element_bytes * (most - totals.back());
}

LevelCounts CountLevels(const Incidence& incidence, const PlacedAccess& access,
                        const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor) {
  if (access.prefixes.empty()) {
    LevelCounts counts = MakeZeros(grid);
    AddDirect(access, layout, incidence.is_write, grid, tensor, &counts);
    return counts;
  }
  RelayedCounter counter(grid, tensor);
  for (size_t fetch = 0; fetch < access.regions.size(); ++fetch) {
    std::vector<int64_t> totals;
    for (size_t round = 0; round < access.prefixes.size(); ++round)
      totals.push_back(
          CountCells(access.prefixes[round], fetch, layout.prefixes[round], incidence.is_write));
    totals.push_back(CountCells(access, fetch, layout, incidence.is_write));
    counter.Add(totals, incidence.is_write && IsScattered(access, layout));
  }
  return counter.counts();
}

int64_t PriceOf(const LevelCounts& counts, const WorkerGrid& grid) {
  double cost = 0;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    cost += grid.price(round) * static_cast<double>(counts.bytes[round]) +
            grid.latency(round) * static_cast<double>(counts.waits[round]);
  }
  return std::llround(std::min(cost, static_cast<double>(kForbiddenBytes)));
}

bool IsInPlace(const Incidence& incidence) {
  return std::any_of(incidence.reads.begin(), incidence.reads.end(),
                     [](const Input* input) { return input->is_held; });
}

int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, const WorkerGrid& grid, const Tensor& tensor) {
  if (!incidence.is_write && !IsHeld(access, layout.shards)) return kForbiddenBytes;
  if (grid.has_prices()) return PriceOf(CountLevels(incidence, access, layout, grid, tensor), grid);
  int64_t cells = 0;
  for (size_t fetch = 0; fetch < access.regions.size(); ++fetch)
    cells += CountCells(access, fetch, layout, incidence.is_write);
  return std::min(tensor.element_bytes * cells, kForbiddenBytes);
}

}  // namespace tofu
