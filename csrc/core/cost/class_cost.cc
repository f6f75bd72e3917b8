/*!
 * \file class_cost.cc
 * \brief Bounds from the sizes of regions and shards.
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

/*! \brief A level of the interconnect. */
struct Level {
  int end;  // the round after its last round
  double price;
  double latency;
};

/*!
 * \brief List the levels, from the top.
 *
 * A price is lowered to the least price above it. Then the cost is at most the real one, and grows
 * with the bytes that enter the groups of any level. Workers that do not relay cross levels more
 * often than groups, so their cost is bounded by a single level with the least price.
 */
std::vector<Level> ListLevels(const Graph& graph, const WorkerGrid& grid) {
  if (!grid.has_prices()) return {{grid.num_rounds(), 1, 0}};
  std::vector<Level> levels;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    const double above = levels.empty() ? grid.price(round) : levels.back().price;
    if (grid.BeginsLevel(round))
      levels.push_back({0, std::min(above, grid.price(round)), grid.latency(round)});
    levels.back().end = round + 1;
  }
  if (graph.relays_in_groups()) return levels;
  Level only = levels.back();
  for (const Level& level : levels) only.latency = std::min(only.latency, level.latency);
  return {only};
}

/*! \brief The largest extent of each dimension over all boxes. */
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

/*! \brief Sizes of regions that workers, or groups of workers, read. */
struct ReadSizes {
  double cells = 0;    // at least as many elements do all of them read
  double readers = 0;  // workers or groups that read
  Extents most;        // the largest extent of each dimension
};

/*! \brief Sizes of parts that workers, or groups, write. */
struct WriteSizes {
  double workers = 0;
  double copies = 0;  // how often all parts of a replica cover each element; 0 if unknown
  bool is_partial = false;
  Extents most;
};

/*! \brief Sizes of the regions of an incidence for the choices of a class. */
struct AccessSizes {
  std::vector<std::vector<ReadSizes>> reads;  // [access][level]
  std::vector<Extents> held;                  // extents of regions that must equal the shard
  std::vector<WriteSizes> writes;             // by level
};

/*! \brief Sizes of the shards of a tensor for the layouts of a class. */
struct LayoutSizes {
  double cells = 0;  // elements of all shards
  Extents most;
  bool can_scatter = false;    // (PlacedLayout)
  double scattered_cells = 0;  // elements of all scattered parts
  Extents most_scattered;
};

LayoutSizes MeasureLayout(const PlacedLayout& placed) {
  LayoutSizes sizes;
  sizes.cells = SumVolumes(placed.shards);
  sizes.most = FindMost(placed.shards);
  sizes.can_scatter = placed.can_scatter;
  if (placed.can_scatter) {
    sizes.scattered_cells = SumVolumes(placed.scattered);
    sizes.most_scattered = FindMost(placed.scattered);
  }
  return sizes;
}

WriteSizes MeasureWrite(const PlacedAccess& placed) {
  const Boxes& regions = placed.regions.front();
  return {static_cast<double>(regions.count()), static_cast<double>(placed.copies),
          placed.is_partial, FindMost(regions)};
}

/*! \brief Measure boxes that are not empty. If `is_even` is false, which of them are longer by one
 * element depends on the order of the splits. */
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
    ++sizes.readers;
  }
  if (!is_even && sizes.readers > 0) sizes.cells = sizes.readers * MostCommon(least, least);
  return sizes;
}

/*! \brief Measures accesses and layouts on a grid. */
class SizeMeter {
 public:
  SizeMeter(const Graph& graph, const WorkerGrid& grid, const std::vector<Level>& levels)
      : graph_(graph), grid_(grid), levels_(levels) {}

  AccessSizes MeasureAccess(const Incidence& incidence, const std::vector<int>& choice) const {
    const PlacedAccess placed = PlaceAccess(graph_, incidence, grid_, choice);
    AccessSizes sizes;
    if (incidence.is_write) {
      for (const Level& level : levels_)
        sizes.writes.push_back(
            MeasureWrite(IsLast(level) ? placed : placed.prefixes[level.end - 1]));
      return sizes;
    }
    const bool is_even = !HasRest(graph_.op(incidence.op).axis_extents, grid_, choice);
    for (size_t i = 0; i < placed.regions.size(); ++i) {
      sizes.reads.emplace_back();
      for (const Level& level : levels_) {
        if (IsLast(level)) {
          sizes.reads.back().push_back(
              MeasureRead(placed.regions[i], placed.is_charged[i], is_even));
        } else {
          const Boxes& joint = placed.joint[i][level.end - 1];
          sizes.reads.back().push_back(MeasureRead(joint, FindFilled(joint), is_even));
        }
      }
    }
    for (const Boxes& held : placed.held) sizes.held.push_back(FindMost(held));
    return sizes;
  }

  /*! \brief Return the sizes at each level. */
  std::vector<LayoutSizes> MeasureLayouts(int tensor, const std::vector<int>& layout) const {
    const PlacedLayout placed = PlaceLayout(graph_, tensor, grid_, layout);
    std::vector<LayoutSizes> sizes;
    for (const Level& level : levels_)
      sizes.push_back(MeasureLayout(IsLast(level) ? placed : placed.prefixes[level.end - 1]));
    return sizes;
  }

 private:
  bool IsLast(const Level& level) const { return level.end == grid_.num_rounds(); }

  static std::vector<char> FindFilled(const Boxes& boxes) {
    std::vector<char> is_filled;
    for (int group = 0; group < boxes.count(); ++group)
      is_filled.push_back(Volume(boxes[group], boxes.rank()) > 0);
    return is_filled;
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const std::vector<Level>& levels_;
};

class ClassCosts {
 public:
  ClassCosts(const Tensor& tensor, std::vector<Level> levels)
      : tensor_(tensor), levels_(std::move(levels)) {
    least_latency_ = levels_.front().latency;
    for (const Level& level : levels_) least_latency_ = std::min(least_latency_, level.latency);
  }

  int64_t Bound(const AccessSizes& access, const std::vector<LayoutSizes>& layouts) const {
    for (const Extents& held : access.held) {
      if (held != layouts.back().most) return kForbiddenBytes;
    }
    double cost = 0;
    for (const std::vector<ReadSizes>& read : access.reads) {
      cost += BoundFetch([&](size_t level) {
        const LayoutSizes& layout = layouts[level];
        return read[level].cells - read[level].readers * MostCommon(read[level].most, layout.most);
      });
    }
    if (!access.writes.empty()) {
      const auto is_scattered = [&](size_t level) {
        return access.writes[level].is_partial && layouts[level].can_scatter;
      };
      cost += BoundFetch([&](size_t level) {
        const LayoutSizes& layout = layouts[level];
        return is_scattered(level) ? BoundGather(access.writes[level], layout.scattered_cells,
                                                 layout.most_scattered)
                                   : BoundGather(access.writes[level], layout.cells, layout.most);
      });
      cost += BoundFetch([&](size_t level) {
        return is_scattered(level) ? layouts[level].cells - layouts[level].scattered_cells : 0;
      });
    }
    constexpr double kRounding = 1 - 1e-9;  // of sums of floating point numbers
    return static_cast<int64_t>(
        std::floor(std::min(kRounding * cost, static_cast<double>(kForbiddenBytes))));
  }

 private:
  static double BoundGather(const WriteSizes& write, double cells, const Extents& most) {
    if (write.copies <= 0) return 0;
    return write.copies * cells - write.workers * MostCommon(write.most, most);
  }

  /*! \brief The least cost of a fetch. least_cells(level) bounds the elements that enter the groups
   * of a level. */
  template <typename Count>
  double BoundFetch(const Count& least_cells) const {
    double cost = 0;
    double entering = std::numeric_limits<double>::max();
    bool crosses = false;
    for (size_t level = levels_.size(); level-- > 0;) {
      entering = std::min(entering, std::max(0.0, least_cells(level)));
      const double below = level + 1 < levels_.size() ? levels_[level + 1].price : 0;
      cost += (levels_[level].price - below) * entering;
      crosses = crosses || entering > 0;
    }
    cost *= static_cast<double>(tensor_.element_bytes);
    const double latency = entering > 0 ? levels_.front().latency : least_latency_;
    return crosses ? cost + static_cast<double>(tensor_.times) * latency : cost;
  }

  const Tensor& tensor_;
  std::vector<Level> levels_;
  double least_latency_;
};

}  // namespace

std::vector<int> NumberRounds(const WorkerGrid& grid) {
  std::map<std::pair<int, int64_t>, int> known;  // by level and factor
  std::vector<int> kinds;
  int level = 0;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    level += round > 0 && grid.BeginsLevel(round);
    const int number = static_cast<int>(known.size());
    kinds.push_back(known.emplace(std::make_pair(level, grid.factor(round)), number).first->second);
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
  const std::vector<Level> levels = ListLevels(graph, grid);
  const ClassCosts costs(graph.tensor(incidence.tensor), levels);
  const SizeMeter meter(graph, grid, levels);
  std::vector<std::vector<LayoutSizes>> sizes;
  sizes.reserve(layouts.size());
  for (const std::vector<int>& layout : layouts)
    sizes.push_back(meter.MeasureLayouts(incidence.tensor, layout));
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * layouts.size());
  for (const std::vector<int>& choice : choices) {
    const AccessSizes access = meter.MeasureAccess(incidence, choice);
    for (const std::vector<LayoutSizes>& layout : sizes)
      bytes.push_back(costs.Bound(access, layout));
  }
  return bytes;
}

std::vector<int64_t> DescribeSizes(const Graph& graph, const WorkerGrid& grid, int op,
                                   const Input& input, const std::vector<int>& choice) {
  const std::vector<int64_t>& shape = graph.tensor(input.tensor).shape;
  const Boxes asked = AskedRegions(input, shape, SplitAxes(graph, grid, op, choice), choice);
  const std::vector<int> kinds = NumberRounds(grid);
  const int rank = asked.rank();
  Extents most(rank, 0);
  std::vector<std::vector<char>> matters(rank, std::vector<char>(kinds.size(), 0));
  int64_t readers = 0;
  for (int worker = 0; worker < grid.num_workers(); ++worker) {
    if (IsZeroAddend(input, grid, choice, worker)) continue;
    ++readers;
    for (int d = 0; d < rank; ++d) most[d] = std::max(most[d], asked[worker][d].extent());
    int stride = 1;  // between this worker and that with the next digit in a round
    for (int round = grid.num_rounds() - 1; round >= 0; --round) {
      const int next = worker + stride;
      stride *= static_cast<int>(grid.factor(round));
      if (grid.digit(worker, round) + 1 == grid.factor(round)) continue;
      if (IsZeroAddend(input, grid, choice, next)) continue;
      for (int d = 0; d < rank; ++d) {
        if (asked[worker][d] != asked[next][d]) matters[d][round] = 1;
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
