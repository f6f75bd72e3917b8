/*!
 * \file class_cost.cc
 * \brief Bounds from the sizes of regions and shards.
 */
#include "core/cost/class_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace tofu {

namespace {

using Extents = std::vector<int64_t>;

/*! \brief Levels of neighbouring rounds of equal price, from the top. */
struct Level {
  int begin;  // its first round
  double price;
  double latency;
};

/*! \brief List the levels. A price is lowered to the least price above it: then bytes cost no more
 * than they do, and they never cost more at a lower level. */
std::vector<Level> ListLevels(const WorkerGrid& grid) {
  if (!grid.has_prices()) return {{0, 1, 0}};
  std::vector<Level> levels;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    const double price =
        levels.empty() ? grid.price(round) : std::min(levels.back().price, grid.price(round));
    const bool is_next = round == 0 || grid.price(round) != grid.price(round - 1) ||
                         grid.latency(round) != grid.latency(round - 1);
    if (is_next) levels.push_back({round, price, grid.latency(round)});
  }
  return levels;
}

/*! \brief The largest extent of each dimension over all workers. */
Extents FindMost(const Boxes& boxes) {
  Extents most(boxes.rank(), 0);
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int d = 0; d < boxes.rank(); ++d) most[d] = std::max(most[d], boxes[worker][d].extent());
  }
  return most;
}

double SumVolumes(const Boxes& boxes) {
  double cells = 0;
  for (int worker = 0; worker < boxes.count(); ++worker)
    cells += static_cast<double>(Volume(boxes[worker], boxes.rank()));
  return cells;
}

/*! \brief The most elements that boxes of these extents have in common. */
double MostCommon(const Extents& a, const Extents& b) {
  double cells = 1;
  for (size_t d = 0; d < a.size(); ++d) cells *= static_cast<double>(std::min(a[d], b[d]));
  return cells;
}

/*! \brief The first rounds of a sequence, after which nothing is split. */
std::vector<int> Truncate(const std::vector<int>& choices, int rounds) {
  std::vector<int> first(choices.size(), kReplicated);
  std::copy_n(choices.begin(), rounds, first.begin());
  return first;
}

/*! \brief Sizes of one region per worker that is read. */
struct ReadSizes {
  double cells = 0;    // at least as many elements do all workers read
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
  bool overlaps = false;                // parts of the operator may overlap
  Extents most;                         // the largest extents of a region
  std::vector<Extents> most_together;   // by level: of what workers below the level write together
  std::vector<double> partial_results;  // by level: partial results that these workers have
};

/*! \brief Sizes of the shards of a tensor for the layouts of a class. */
struct LayoutSizes {
  double cells = 0;             // elements of all shards
  Extents most;                 // the largest extent of each dimension
  std::vector<Extents> reach;   // by level: the same for what workers below hold together
  std::vector<double> holders;  // by level: workers below the level that hold one shard
  bool can_scatter = false;     // (PlacedLayout)
  double scattered_cells = 0;   // elements of all scattered parts
  Extents scattered;            // the largest extent of each dimension
};

double MultiplyFactors(const WorkerGrid& grid, int begin, const std::vector<int>& choices,
                       const std::vector<char>& is_counted) {
  double product = 1;
  for (int round = begin; round < grid.num_rounds(); ++round) {
    const int choice = choices[round];
    if (is_counted[choice + 1] != 0) product *= static_cast<double>(grid.factor(round));
  }
  return product;
}

ReadSizes MeasureRead(const Boxes& regions, const std::vector<char>& is_charged, bool is_even) {
  ReadSizes sizes;
  sizes.most.assign(regions.rank(), 0);
  Extents least;
  for (int worker = 0; worker < regions.count(); ++worker) {
    if (!is_charged[worker]) continue;
    const Extents extents = ExtentsOf(regions[worker], regions.rank());
    if (least.empty()) least = extents;
    for (int d = 0; d < regions.rank(); ++d) {
      sizes.most[d] = std::max(sizes.most[d], extents[d]);
      if (!least.empty()) least[d] = std::min(least[d], extents[d]);
    }
    sizes.cells += static_cast<double>(Volume(regions[worker], regions.rank()));
    ++sizes.workers;
  }
  // Which parts are longer by one element depends on the order of uneven splits.
  if (!is_even && sizes.workers > 0) sizes.cells = sizes.workers * MostCommon(least, least);
  return sizes;
}

AccessSizes MeasureAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                          const std::vector<Level>& levels, const std::vector<int>& choice) {
  const std::vector<int64_t>& axes = graph.op(incidence.op).axis_extents;
  const std::vector<int64_t>& shape = graph.tensor(incidence.tensor).shape;
  const PlacedAccess placed = PlaceAccess(graph, incidence, grid, choice);
  AccessSizes sizes;
  if (!incidence.is_write) {
    const bool is_even = !HasRest(axes, grid, choice);
    for (size_t i = 0; i < placed.regions.size(); ++i)
      sizes.reads.push_back(MeasureRead(placed.regions[i], placed.is_charged[i], is_even));
    for (const Boxes& held : placed.held) sizes.held.push_back(FindMost(held));
    return sizes;
  }
  const Output& output = *incidence.write;
  sizes.copies = static_cast<double>(placed.copies);
  sizes.is_partial = placed.is_partial;
  sizes.overlaps = placed.own.count() > 0;
  sizes.most = FindMost(placed.regions.front());
  std::vector<char> adds(axes.size() + 1, 0);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    adds[axis + 1] =
        output.combine[axis] == Combine::kReduce || output.combine[axis] == Combine::kOverlapAdd;
  }
  for (const Level& level : levels) {
    const std::vector<int> above = Truncate(choice, level.begin);
    const Boxes boxes = SplitAxes(graph, grid, incidence.op, above);
    sizes.most_together.push_back(
        FindMost(ClipBoxes(WrittenRegions(output, shape, boxes, above), shape)));
    sizes.partial_results.push_back(MultiplyFactors(grid, level.begin, choice, adds));
  }
  return sizes;
}

LayoutSizes MeasureLayout(const Graph& graph, int tensor, const WorkerGrid& grid,
                          const std::vector<Level>& levels, const std::vector<int>& layout) {
  const PlacedLayout placed = PlaceLayout(graph, tensor, grid, layout);
  LayoutSizes sizes;
  sizes.cells = SumVolumes(placed.shards);
  sizes.most = FindMost(placed.shards);
  sizes.can_scatter = placed.can_scatter;
  if (placed.can_scatter) {
    sizes.scattered_cells = SumVolumes(placed.scattered);
    sizes.scattered = FindMost(placed.scattered);
  }
  std::vector<char> copies(graph.tensor(tensor).shape.size() + 1, 0);
  copies[0] = 1;
  for (const Level& level : levels) {
    sizes.reach.push_back(
        FindMost(SplitTensor(graph, grid, tensor, Truncate(layout, level.begin))));
    sizes.holders.push_back(MultiplyFactors(grid, level.begin, layout, copies));
  }
  return sizes;
}

class ClassCosts {
 public:
  ClassCosts(const WorkerGrid& grid, const Tensor& tensor, std::vector<Level> levels)
      : workers_(grid.num_workers()), tensor_(tensor), levels_(std::move(levels)) {
    for (const Level& level : levels_)
      least_latency_ = least_latency_ < 0 ? level.latency : std::min(least_latency_, level.latency);
  }

  int64_t Bound(const AccessSizes& access, const LayoutSizes& layout, bool is_write) const {
    double cost = 0;
    if (!is_write) {
      for (const Extents& held : access.held) {
        if (held != layout.most) return kForbiddenBytes;
      }
      for (const ReadSizes& read : access.reads) cost += BoundRead(read, layout);
    } else if (access.is_partial && layout.can_scatter) {
      cost = BoundGather(access, layout.scattered_cells, layout.scattered) + BoundJoin(layout);
    } else {
      cost = BoundGather(access, layout.cells, layout.most);
    }
    constexpr double kRounding = 1 - 1e-9;  // of sums of floating point numbers
    return static_cast<int64_t>(
        std::floor(std::min(kRounding * cost, static_cast<double>(kForbiddenBytes))));
  }

 private:
  /*!
   * \brief The least cost of a fetch. `within` has, for each level and then for the worker itself,
   * the most elements that are within reach below it; the first entry is the least of all elements.
   */
  double BoundFetch(std::vector<double> within) const {
    double cost = 0;
    for (size_t level = 0; level < levels_.size(); ++level) {
      within[level + 1] = std::min(within[level + 1], within[level]);
      cost += levels_[level].price * (within[level] - within[level + 1]);
    }
    cost *= static_cast<double>(tensor_.element_bytes);
    const auto times = static_cast<double>(tensor_.times);
    if (within[0] > within[1]) return cost + times * levels_.front().latency;
    if (within[0] > within.back()) return cost + times * least_latency_;
    return cost;
  }

  double BoundRead(const ReadSizes& read, const LayoutSizes& layout) const {
    std::vector<double> within = {read.cells};
    for (size_t level = 1; level < levels_.size(); ++level)
      within.push_back(read.workers * MostCommon(read.most, layout.reach[level]));
    within.push_back(read.workers * MostCommon(read.most, layout.most));
    return BoundFetch(std::move(within));
  }

  double BoundGather(const AccessSizes& access, double cells, const Extents& most) const {
    if (access.copies <= 0) return 0;
    const double from_itself = workers_ * MostCommon(access.most, most);
    std::vector<double> within = {access.copies * cells};
    for (size_t level = 1; level < levels_.size(); ++level) {
      within.push_back(workers_ * access.partial_results[level] *
                           MostCommon(access.most_together[level], most) +
                       (access.overlaps ? from_itself : 0));
    }
    within.push_back(from_itself);
    return BoundFetch(std::move(within));
  }

  double BoundJoin(const LayoutSizes& layout) const {
    std::vector<double> within = {layout.cells};
    for (size_t level = 1; level < levels_.size(); ++level) {
      within.push_back(workers_ * layout.holders[level] *
                       MostCommon(layout.scattered, layout.scattered));
    }
    within.push_back(layout.scattered_cells);
    return BoundFetch(std::move(within));
  }

  double workers_;
  const Tensor& tensor_;
  std::vector<Level> levels_;
  double least_latency_ = -1;
};

}  // namespace

std::vector<int> NumberRounds(const WorkerGrid& grid) {
  std::map<std::tuple<int64_t, double, double>, int> known;
  std::vector<int> kinds;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    const double price = grid.has_prices() ? grid.price(round) : 0;
    const auto key =
        std::make_tuple(grid.factor(round), price, grid.has_prices() ? grid.latency(round) : 0);
    kinds.push_back(known.emplace(key, static_cast<int>(known.size())).first->second);
  }
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
  const std::vector<Level> levels = ListLevels(grid);
  const ClassCosts costs(grid, graph.tensor(incidence.tensor), levels);
  std::vector<LayoutSizes> sizes;
  sizes.reserve(layouts.size());
  for (const std::vector<int>& layout : layouts)
    sizes.push_back(MeasureLayout(graph, incidence.tensor, grid, levels, layout));
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * layouts.size());
  for (const std::vector<int>& choice : choices) {
    const AccessSizes access = MeasureAccess(graph, incidence, grid, levels, choice);
    for (const LayoutSizes& layout : sizes)
      bytes.push_back(costs.Bound(access, layout, incidence.is_write));
  }
  return bytes;
}

std::vector<int64_t> DescribeSizes(const Graph& graph, const WorkerGrid& grid, int op,
                                   const Input& input, const std::vector<int>& choice) {
  const std::vector<int64_t>& shape = graph.tensor(input.tensor).shape;
  const Boxes asked = AskedRegions(input, shape, SplitAxes(graph, grid, op, choice), choice);
  Extents sizes = FindMost(asked);
  int64_t readers = 0;
  for (int worker = 0; worker < grid.num_workers(); ++worker)
    readers += !IsZeroAddend(input, grid, choice, worker);
  sizes.push_back(readers);
  return sizes;
}

}  // namespace tofu
