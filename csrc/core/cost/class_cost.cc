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
    if (round == 0 || !IsSameLevel(grid, round - 1, round))
      levels.push_back({round, price, grid.latency(round)});
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

/*! \brief For each dimension, the level of each round that splits it, from the top. Empty for
 * dimensions that are not cut into equal and disjoint parts. */
using SplitLevels = std::vector<std::vector<int>>;

/*! \brief Boxes of all workers. */
struct BoxSizes {
  Extents most;        // the largest extent of each dimension
  SplitLevels splits;  // empty if the grid has one level or different factors
};

/*! \brief Return the rounds of `sizes` above a level. */
BoxSizes CutSplits(const BoxSizes& sizes, Extents most, int level) {
  BoxSizes above = {std::move(most), sizes.splits};
  for (std::vector<int>& of_dimension : above.splits) {
    of_dimension.erase(std::lower_bound(of_dimension.begin(), of_dimension.end(), level),
                       of_dimension.end());
  }
  return above;
}

/*!
 * \brief The most elements that boxes have in common, on average over all workers.
 *
 * Part p of a dimension is the same in both boxes only if the digits of their rounds are equal. If
 * the rounds are at different levels, the digits are independent, and equal for one worker in
 * `factor`. Each round splits one dimension of each box, so such pairs of rounds form paths and
 * cycles. A cycle, in which one equation follows from the others, has a pair in each direction.
 */
double MostCommonOnAverage(const BoxSizes& a, const BoxSizes& b, double factor) {
  double cells = MostCommon(a.most, b.most);
  if (a.splits.empty() || b.splits.empty()) return cells;
  int deeper = 0;
  int shallower = 0;
  for (size_t d = 0; d < a.most.size(); ++d) {
    const size_t rounds = std::min(a.splits[d].size(), b.splits[d].size());
    for (size_t round = 0; round < rounds; ++round) {
      deeper += a.splits[d][round] > b.splits[d][round];
      shallower += a.splits[d][round] < b.splits[d][round];
    }
  }
  for (int pair = std::max(deeper, shallower); pair > 0; --pair) cells /= factor;
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
  BoxSizes region;
};

/*! \brief Sizes of the regions of an incidence for the choices of a class. */
struct AccessSizes {
  std::vector<ReadSizes> reads;
  std::vector<Extents> held;  // extents of regions that must equal the shard
  // Writes:
  double copies = 0;  // how often all regions of a replica cover each element; 0 if unknown
  bool is_partial = false;
  bool overlaps = false;  // parts of the operator may overlap
  BoxSizes region;
  std::vector<BoxSizes> together;       // by level: what workers below the level write together
  std::vector<double> partial_results;  // by level: partial results that these workers have
};

/*! \brief Sizes of the shards of a tensor for the layouts of a class. */
struct LayoutSizes {
  double cells = 0;  // elements of all shards
  BoxSizes shard;
  std::vector<BoxSizes> reach;  // by level: what workers below the level hold together
  std::vector<double> holders;  // by level: workers below the level that hold one shard
  bool can_scatter = false;     // (PlacedLayout)
  double scattered_cells = 0;   // elements of all scattered parts
  BoxSizes scattered;
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

/*! \brief Measures accesses and layouts on a grid. */
class SizeMeter {
 public:
  SizeMeter(const Graph& graph, const WorkerGrid& grid, const std::vector<Level>& levels)
      : graph_(graph), grid_(grid), levels_(levels) {
    const std::vector<int64_t>& factors = grid.factors();
    has_splits_ =
        levels.size() > 1 && std::all_of(factors.begin(), factors.end(),
                                         [&](int64_t factor) { return factor == factors.front(); });
    for (int round = 0, level = 0; round < grid.num_rounds(); ++round) {
      if (level + 1 < static_cast<int>(levels.size()) && levels[level + 1].begin == round) ++level;
      level_of_round_.push_back(level);
    }
  }

  AccessSizes MeasureAccess(const Incidence& incidence, const std::vector<int>& choice) const {
    const std::vector<int64_t>& axes = graph_.op(incidence.op).axis_extents;
    const PlacedAccess placed = PlaceAccess(graph_, incidence, grid_, choice);
    AccessSizes sizes;
    if (incidence.is_write) {
      MeasureWrite(incidence, placed, choice, &sizes);
      return sizes;
    }
    const bool is_even = !HasRest(axes, grid_, choice);
    for (size_t i = 0; i < placed.regions.size(); ++i) {
      const Input& input = *incidence.reads[i];
      ReadSizes read = MeasureRead(placed.regions[i], placed.is_charged[i], is_even);
      if (read.workers == grid_.num_workers())
        read.region.splits = ListSplits(incidence, input.rows, input.absent, choice);
      sizes.reads.push_back(std::move(read));
    }
    for (const Boxes& held : placed.held) sizes.held.push_back(FindMost(held));
    return sizes;
  }

  LayoutSizes MeasureLayout(int tensor, const std::vector<int>& layout) const {
    const std::vector<int64_t>& shape = graph_.tensor(tensor).shape;
    const PlacedLayout placed = PlaceLayout(graph_, tensor, grid_, layout);
    LayoutSizes sizes;
    sizes.cells = SumVolumes(placed.shards);
    sizes.shard.most = FindMost(placed.shards);
    if (has_splits_) {
      sizes.shard.splits.resize(shape.size());
      for (size_t d = 0; d < shape.size(); ++d)
        sizes.shard.splits[d] = FindLevels(shape[d], layout, static_cast<int>(d));
    }
    sizes.can_scatter = placed.can_scatter;
    if (placed.can_scatter) {
      sizes.scattered_cells = SumVolumes(placed.scattered);
      sizes.scattered = {FindMost(placed.scattered), sizes.shard.splits};
    }
    std::vector<char> copies(shape.size() + 1, 0);
    copies[0] = 1;
    for (size_t level = 0; level < levels_.size(); ++level) {
      const std::vector<int> above = Truncate(layout, levels_[level].begin);
      sizes.reach.push_back(CutSplits(sizes.shard,
                                      FindMost(SplitTensor(graph_, grid_, tensor, above)),
                                      static_cast<int>(level)));
      sizes.holders.push_back(MultiplyFactors(grid_, levels_[level].begin, layout, copies));
    }
    return sizes;
  }

 private:
  static ReadSizes MeasureRead(const Boxes& regions, const std::vector<char>& is_charged,
                               bool is_even) {
    ReadSizes sizes;
    Extents& most = sizes.region.most;
    most.assign(regions.rank(), 0);
    Extents least(regions.rank(), std::numeric_limits<int64_t>::max());
    for (int worker = 0; worker < regions.count(); ++worker) {
      if (!is_charged[worker]) continue;
      for (int d = 0; d < regions.rank(); ++d) {
        most[d] = std::max(most[d], regions[worker][d].extent());
        least[d] = std::min(least[d], regions[worker][d].extent());
      }
      sizes.cells += static_cast<double>(Volume(regions[worker], regions.rank()));
      ++sizes.workers;
    }
    // Which parts are longer by one element depends on the order of uneven splits.
    if (!is_even && sizes.workers > 0) sizes.cells = sizes.workers * MostCommon(least, least);
    return sizes;
  }

  void MeasureWrite(const Incidence& incidence, const PlacedAccess& placed,
                    const std::vector<int>& choice, AccessSizes* sizes) const {
    const Output& output = *incidence.write;
    const std::vector<int64_t>& shape = graph_.tensor(incidence.tensor).shape;
    sizes->copies = static_cast<double>(placed.copies);
    sizes->is_partial = placed.is_partial;
    sizes->overlaps = placed.own.count() > 0;
    sizes->region = {FindMost(placed.regions.front()),
                     ListSplits(incidence, output.rows, output.absent, choice)};
    std::vector<char> adds(output.combine.size() + 1, 0);
    for (size_t axis = 0; axis < output.combine.size(); ++axis) {
      adds[axis + 1] =
          output.combine[axis] == Combine::kReduce || output.combine[axis] == Combine::kOverlapAdd;
    }
    for (size_t level = 0; level < levels_.size(); ++level) {
      const std::vector<int> above = Truncate(choice, levels_[level].begin);
      const Boxes boxes = SplitAxes(graph_, grid_, incidence.op, above);
      sizes->together.push_back(CutSplits(
          sizes->region, FindMost(ClipBoxes(WrittenRegions(output, shape, boxes, above), shape)),
          static_cast<int>(level)));
      sizes->partial_results.push_back(MultiplyFactors(grid_, levels_[level].begin, choice, adds));
    }
  }

  /*! \brief The levels of the rounds that split an extent, if they divide it. */
  std::vector<int> FindLevels(int64_t extent, const std::vector<int>& choice, int split) const {
    std::vector<int> levels;
    for (size_t round = 0; round < choice.size(); ++round) {
      if (choice[round] != split) continue;
      if (extent % grid_.factor(static_cast<int>(round)) != 0) return {};
      extent /= grid_.factor(static_cast<int>(round));
      levels.push_back(level_of_round_[round]);
    }
    return levels;
  }

  /*! \brief The rounds that split each dimension of a region whose parts are those of an axis. */
  SplitLevels ListSplits(const Incidence& incidence, const std::vector<Row>& rows,
                         const Absent& absent, const std::vector<int>& choice) const {
    if (!has_splits_) return {};
    const std::vector<int64_t>& axes = graph_.op(incidence.op).axis_extents;
    const std::vector<int64_t>& shape = graph_.tensor(incidence.tensor).shape;
    SplitLevels splits(shape.size());
    for (size_t d = 0; d < shape.size() && !absent.IsGiven(); ++d) {
      const Row& row = rows[d];
      const bool is_plain = row.terms.size() == 1 && row.terms[0].coefficient == 1 &&
                            row.lower == 0 && row.upper == 1;
      if (is_plain && axes[row.terms[0].axis] == shape[d])
        splits[d] = FindLevels(shape[d], choice, row.terms[0].axis);
    }
    return splits;
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const std::vector<Level>& levels_;
  bool has_splits_ = false;
  std::vector<int> level_of_round_;
};

class ClassCosts {
 public:
  ClassCosts(const WorkerGrid& grid, const Tensor& tensor, std::vector<Level> levels)
      : workers_(grid.num_workers()),
        factor_(static_cast<double>(grid.factor(0))),
        tensor_(tensor),
        levels_(std::move(levels)) {
    for (const Level& level : levels_)
      least_latency_ = least_latency_ < 0 ? level.latency : std::min(least_latency_, level.latency);
  }

  int64_t Bound(const AccessSizes& access, const LayoutSizes& layout, bool is_write) const {
    double cost = 0;
    if (!is_write) {
      for (const Extents& held : access.held) {
        if (held != layout.shard.most) return kForbiddenBytes;
      }
      for (const ReadSizes& read : access.reads) cost += BoundRead(read, layout);
    } else if (access.is_partial && layout.can_scatter) {
      cost = BoundGather(access, layout.scattered_cells, layout.scattered) + BoundJoin(layout);
    } else {
      cost = BoundGather(access, layout.cells, layout.shard);
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
      within.push_back(read.workers * CountCommon(read.region, layout.reach[level]));
    within.push_back(read.workers * CountCommon(read.region, layout.shard));
    return BoundFetch(std::move(within));
  }

  double BoundGather(const AccessSizes& access, double cells, const BoxSizes& box) const {
    if (access.copies <= 0) return 0;
    const double from_itself = workers_ * CountCommon(access.region, box);
    std::vector<double> within = {access.copies * cells};
    for (size_t level = 1; level < levels_.size(); ++level) {
      within.push_back(workers_ * access.partial_results[level] *
                           CountCommon(access.together[level], box) +
                       (access.overlaps ? from_itself : 0));
    }
    within.push_back(from_itself);
    return BoundFetch(std::move(within));
  }

  double BoundJoin(const LayoutSizes& layout) const {
    std::vector<double> within = {layout.cells};
    for (size_t level = 1; level < levels_.size(); ++level) {
      within.push_back(workers_ * layout.holders[level] *
                       MostCommon(layout.scattered.most, layout.scattered.most));
    }
    within.push_back(layout.scattered_cells);
    return BoundFetch(std::move(within));
  }

  double CountCommon(const BoxSizes& a, const BoxSizes& b) const {
    return MostCommonOnAverage(a, b, factor_);
  }

  double workers_;
  double factor_;  // of all rounds, if they are equal
  const Tensor& tensor_;
  std::vector<Level> levels_;
  double least_latency_ = -1;
};

}  // namespace

std::vector<int> NumberRounds(const WorkerGrid& grid) {
  std::map<std::pair<int, int64_t>, int> known;  // by level and factor
  std::vector<int> kinds;
  int level = 0;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    level += round > 0 && !IsSameLevel(grid, round - 1, round);
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
  const std::vector<Level> levels = ListLevels(grid);
  const ClassCosts costs(grid, graph.tensor(incidence.tensor), levels);
  const SizeMeter meter(graph, grid, levels);
  std::vector<LayoutSizes> sizes;
  sizes.reserve(layouts.size());
  for (const std::vector<int>& layout : layouts)
    sizes.push_back(meter.MeasureLayout(incidence.tensor, layout));
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * layouts.size());
  for (const std::vector<int>& choice : choices) {
    const AccessSizes access = meter.MeasureAccess(incidence, choice);
    for (const LayoutSizes& layout : sizes)
      bytes.push_back(costs.Bound(access, layout, incidence.is_write));
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
