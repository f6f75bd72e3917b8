/*!
 * \file placement.cc
 */
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/cost/cost.h"

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

}  // namespace

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
  const bool is_same_fill = fill_a == fill_b && std::signbit(fill_a) == std::signbit(fill_b);
  return !reaches_outside || is_same_fill;
}

Boxes FindNeededRegions(const Input& input, const std::vector<int64_t>& shape,
                        const Boxes& axis_boxes, const std::vector<int>& choice) {
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
  const bool relays = grid.has_prices() && graph.relays_in_groups();
  for (int rounds = 1; relays && rounds < grid.num_rounds(); ++rounds) {
    placed.prefixes.push_back(
        PlaceAccess(graph, incidence, grid.UnpricedPrefix(rounds), FirstRounds(choice, rounds)));
  }
  if (incidence.is_write) {
    const auto find_regions = [&](const Boxes& boxes) {
      return ClipBoxes(WrittenRegions(*incidence.write, shape, boxes, choice), shape);
    };
    placed.regions.push_back(find_regions(axis_boxes));
    placed.replica = NumberCombined(*incidence.write, grid, choice, {Combine::kReplicate});
    placed.is_partial = IsPartialResult(*incidence.write, choice);
    const bool overlaps =
        graph.splits_equally() && HasRest(graph.op(incidence.op).axis_extents, grid, choice);
    if (overlaps) {
      placed.own = find_regions(OwnBoxes(axis_boxes));
      placed.addend =
          NumberCombined(*incidence.write, grid, choice, {Combine::kReduce, Combine::kOverlapAdd});
    }
    placed.copies =
        CountCoverage(overlaps ? placed.own : placed.regions.front(), placed.replica, shape);
    return placed;
  }
  std::vector<Boxes> needed_regions;
  for (const Input* input : incidence.reads) {
    needed_regions.push_back(FindNeededRegions(*input, shape, axis_boxes, choice));
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
                       std::find(layout.begin(), layout.end(), kReplicated) != layout.end();
  placed.cells = TotalVolume(placed.shards);
  if (placed.can_scatter) {
    placed.scattered = ScatterShards(placed.shards, tensor.shape, grid, layout);
    placed.scattered_cells = TotalVolume(placed.scattered);
  }
  for (int rounds = 1; grid.has_prices() && rounds < grid.num_rounds(); ++rounds) {
    placed.prefixes.push_back(
        PlaceLayout(graph, tensor_id, grid.UnpricedPrefix(rounds), FirstRounds(layout, rounds)));
  }
  return placed;
}

}  // namespace tofu
