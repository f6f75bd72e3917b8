/*!
 * \file class_cost.cc
 */
#include "core/cost/class_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace tofu {

namespace {

using Extents = std::vector<int64_t>;

/*! \brief The largest extent of each dimension over all boxes. */
Extents FindMost(const Boxes& boxes) {
  Extents most(boxes.rank(), 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int d = 0; d < boxes.rank(); ++d) most[d] = std::max(most[d], boxes[worker][d].extent());
  }
  return most;
}

/*! \brief The most elements that boxes of these extents have in common. */
double MostCommon(const Extents& a, const Extents& b) {
  double cells = 1;
  for (size_t d = 0; d < a.size(); ++d) cells *= static_cast<double>(std::min(a[d], b[d]));
  return cells;
}

/*! \brief Sizes of the regions that workers read, one for each. */
struct ReadSizes {
  double cells = 0;    // lower bound of the elements that all workers read
  double workers = 0;  // workers that read
  Extents most;        // the largest extent of each dimension
};

/*! \brief Sizes of the regions of an incidence for the choices of a class. */
struct AccessSizes {
  std::vector<ReadSizes> reads;
  std::vector<Extents> held;  // extents of regions that must equal the shard
  // Writes:
  double copies = 0;  // how often all regions of a replica cover each element; 0 if unknown
  bool is_partial = false;
  Extents most;
};

/*! \brief Sizes of the shards of a tensor for the layouts of a class. */
struct LayoutSizes {
  double cells = 0;  // elements of all shards
  Extents most;
  bool can_scatter = false;    // (PlacedLayout)
  double scattered_cells = 0;  // elements of all scattered parts
  Extents most_scattered;
};

ReadSizes MeasureRead(const Boxes& regions, const std::vector<char>& is_charged, bool is_even) {
  ReadSizes sizes;
  sizes.most.assign(regions.rank(), 0);
  Extents least(regions.rank(), std::numeric_limits<int64_t>::max());
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (!is_charged[worker]) continue;
    for (int d = 0; d < regions.rank(); ++d) {
      sizes.most[d] = std::max(sizes.most[d], regions[worker][d].extent());
      least[d] = std::min(least[d], regions[worker][d].extent());
    }
    sizes.cells += static_cast<double>(Volume(regions[worker], regions.rank()));
    ++sizes.workers;
  }
  // Which parts are longer by one element depends on the order of uneven splits.
  if (!is_even && sizes.workers > 0) sizes.cells = sizes.workers * MostCommon(least, least);
  return sizes;
}

AccessSizes MeasureAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                          const std::vector<int>& choice) {
  const PlacedAccess placed = PlaceAccess(graph, incidence, grid, choice);
  AccessSizes sizes;
  if (incidence.is_write) {
    sizes.copies = static_cast<double>(placed.copies);
    sizes.is_partial = placed.is_partial;
    sizes.most = FindMost(placed.regions.front());
    return sizes;
  }
  const bool is_even = !HasRest(graph.op(incidence.op).axis_extents, grid, choice);
  for (size_t i = 0; i < placed.regions.size(); ++i)
    sizes.reads.push_back(MeasureRead(placed.regions[i], placed.is_charged[i], is_even));
  for (const Boxes& held : placed.held) sizes.held.push_back(FindMost(held));
  return sizes;
}

LayoutSizes MeasureLayout(const Graph& graph, int tensor, const WorkerGrid& grid,
                          const std::vector<int>& layout) {
  const PlacedLayout placed = PlaceLayout(graph, tensor, grid, layout);
  LayoutSizes sizes;
  sizes.cells = static_cast<double>(placed.cells);
  sizes.most = FindMost(placed.shards);
  sizes.can_scatter = placed.can_scatter;
  if (placed.can_scatter) {
    sizes.scattered_cells = static_cast<double>(placed.scattered_cells);
    sizes.most_scattered = FindMost(placed.scattered);
  }
  return sizes;
}

/*! \brief The fewest elements that workers receive, and the fewest fetches. */
struct Received {
  double cells = 0;
  double fetches = 0;

  void Add(double more_cells, double more_fetches) {
    if (more_cells <= 0) return;
    cells += more_cells;
    fetches += more_fetches;
  }
};

/*! \brief Bound what workers receive for regions and shards of these sizes. */
Received BoundReceived(const AccessSizes& access, const LayoutSizes& layout, double workers,
                       bool is_write) {
  Received received;
  if (!is_write) {
    for (const ReadSizes& read : access.reads)
      received.Add(read.cells - read.workers * MostCommon(read.most, layout.most), 1);
    return received;
  }
  const auto gather = [&](double all, const Extents& most) {
    if (access.copies <= 0) return 0.0;
    return access.copies * all - std::min(all, workers * MostCommon(access.most, most));
  };
  if (!access.is_partial || !layout.can_scatter) {
    received.Add(gather(layout.cells, layout.most), 1);
  } else {
    received.Add(gather(layout.scattered_cells, layout.most_scattered), 1);
    received.Add(layout.cells - layout.scattered_cells, 1);
  }
  return received;
}

int64_t BoundBytes(const AccessSizes& access, const LayoutSizes& layout, const WorkerGrid& grid,
                   bool is_write, const Tensor& tensor) {
  for (const Extents& held : access.held) {
    if (held != layout.most) return kForbiddenBytes;
  }
  constexpr double kRounding = 1 - 1e-9;  // of sums of floating point numbers
  const Received received = BoundReceived(access, layout, grid.num_workers(), is_write);
  const double bytes =
      kRounding * (static_cast<double>(tensor.element_bytes) * received.cells +
                   grid.latency(0) * static_cast<double>(tensor.times) * received.fetches);
  return static_cast<int64_t>(std::floor(std::min(bytes, static_cast<double>(kForbiddenBytes))));
}

}  // namespace

std::vector<int> NumberRounds(const WorkerGrid& grid) {
  std::map<int64_t, int> known;  // by factor
  std::vector<int> kinds;
  for (const int64_t factor : grid.factors())
    kinds.push_back(known.emplace(factor, static_cast<int>(known.size())).first->second);
  return kinds;
}

std::vector<int> DescribeClass(const std::vector<int>& kinds, const std::vector<int>& choices) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t round = 0; round < choices.size(); ++round)
    pairs.emplace_back(kinds[round], choices[round]);
  std::sort(pairs.begin(), pairs.end());
  std::vector<int> description;
  for (const auto& [kind, choice] : pairs) description.push_back(choice);
  return description;
}

std::vector<int64_t> BoundIncidence(const Graph& graph, const Incidence& incidence,
                                    const WorkerGrid& grid,
                                    const std::vector<std::vector<int>>& choices,
                                    const std::vector<std::vector<int>>& layouts) {
  const Tensor& tensor = graph.tensor(incidence.tensor);
  const WorkerGrid unpriced = grid.UnpricedPrefix(grid.num_rounds());
  std::vector<LayoutSizes> sizes;
  sizes.reserve(layouts.size());
  for (const std::vector<int>& layout : layouts)
    sizes.push_back(MeasureLayout(graph, incidence.tensor, unpriced, layout));
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * layouts.size());
  for (const std::vector<int>& choice : choices) {
    const AccessSizes access = MeasureAccess(graph, incidence, unpriced, choice);
    for (const LayoutSizes& layout : sizes)
      bytes.push_back(BoundBytes(access, layout, grid, incidence.is_write, tensor));
  }
  return bytes;
}

std::vector<int64_t> DescribeSizes(const Graph& graph, const WorkerGrid& grid, int op,
                                   const Input& input, const std::vector<int>& choice) {
  const std::vector<int64_t>& shape = graph.tensor(input.tensor).shape;
  const Boxes needed = FindNeededRegions(input, shape, SplitAxes(graph, grid, op, choice), choice);
  const std::vector<int> kinds = NumberRounds(grid);
  const int rank = needed.rank();
  Extents most(rank, 0);
  std::vector<std::vector<char>> matters(rank, std::vector<char>(kinds.size(), 0));
  int64_t readers = 0;
  for (int worker = 0; worker < grid.num_workers(); ++worker) {
    if (IsZeroAddend(input, grid, choice, worker)) continue;
    ++readers;
    for (int d = 0; d < rank; ++d) most[d] = std::max(most[d], needed[worker][d].extent());
    int stride = 1;  // between this worker and that with the next digit in a round
    for (int round = grid.num_rounds() - 1; round >= 0; --round) {
      const int next = worker + stride;
      stride *= static_cast<int>(grid.factor(round));
      if (grid.digit(worker, round) + 1 == grid.factor(round)) continue;
      if (IsZeroAddend(input, grid, choice, next)) continue;
      for (int d = 0; d < rank; ++d) {
        if (needed[worker][d] != needed[next][d]) matters[d][round] = 1;
      }
    }
  }
  std::vector<int64_t> description = {readers};
  for (int d = 0; d < rank; ++d) {
    description.push_back(most[d]);
    for (size_t round = 0; round < kinds.size(); ++round) {
      if (matters[d][round] != 0) description.push_back(kinds[round]);
    }
    description.push_back(-1);
  }
  return description;
}

}  // namespace tofu
