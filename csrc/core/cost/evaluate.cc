/*!
 * \file evaluate.cc
 * \brief Checks and costs of whole plans, without tables.
 */
#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/base/numbering.h"
#include "core/base/text.h"
#include "core/cost/cost.h"

namespace tofu {

namespace {

/*! \brief Regions of one tensor that workers have fetched so far. */
class FetchedRegions {
 public:
  FetchedRegions(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment)
      : graph_(graph), grid_(grid), assignment_(assignment) {}

  /*! \brief Remove the charge for regions that were fetched before. Updates share nothing: they
   * read the gradient when the step returns it. */
  void Discharge(const Incidence& read, PlacedAccess* access) {
    if (graph_.op(read.op).follows_tensor >= 0) return;
    const std::vector<int64_t>& shape = graph_.tensor(read.tensor).shape;
    if (tensor_ != read.tensor) regions_.assign(grid_.num_workers(), {});
    tensor_ = read.tensor;
    const std::vector<int> choice = FirstRounds(assignment_.operators[read.op], grid_.num_rounds());
    const Boxes axis_boxes = SplitAxes(graph_, grid_, read.op, choice);
    for (size_t i = 0; i < read.reads.size(); ++i) {
      const Boxes boxes = FindNeededRegions(*read.reads[i], shape, axis_boxes, choice);
      for (int worker = 0; worker < grid_.num_workers(); ++worker) {
        if (!access->is_charged[i][worker]) continue;
        access->is_charged[i][worker] = Add(worker, boxes[worker], read.reads[i]->fill, shape);
      }
    }
  }

 private:
  struct Region {
    std::vector<Interval> box;
    double fill;
  };

  /*! \brief Return true if the region is new to the worker. */
  bool Add(int worker, const Interval* box, double fill, const std::vector<int64_t>& shape) {
    for (const Region& fetched : regions_[worker]) {
      if (IsSameRegion(fetched.box.data(), fetched.fill, box, fill, shape)) return false;
    }
    regions_[worker].push_back({std::vector<Interval>(box, box + shape.size()), fill});
    return true;
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  int tensor_ = -1;
  std::vector<std::vector<Region>> regions_;  // by worker
};

bool IsKeptRead(const Incidence& incidence, const Assignment& assignment) {
  return !incidence.is_write && assignment.IsKept(incidence.tensor);
}

/*! \brief Return, for each incidence, a number that is equal for incidences of equal bytes. Each
 * read of a kept tensor has a number of its own. */
std::vector<int> NumberKinds(const Graph& graph, const std::vector<Incidence>& incidences,
                             const Assignment& assignment) {
  Numbering description_numbers;
  Numbering kind_numbers;
  std::vector<int> kinds;
  for (const Incidence& incidence : incidences) {
    const bool is_kept = IsKeptRead(incidence, assignment);
    std::vector<int> key = {is_kept ? static_cast<int>(kinds.size()) : -1,
                            description_numbers.Of(DescribeIncidence(graph, incidence))};
    for (int choice : assignment.operators[incidence.op]) key.push_back(choice);
    for (int choice : assignment.tensors[incidence.tensor]) key.push_back(choice);
    kinds.push_back(kind_numbers.Of(key));
  }
  return kinds;
}

struct PlacedIncidence {
  PlacedAccess access;
  PlacedLayout layout;
};

/*! \brief Place an incidence on the grid of the first rounds. */
PlacedIncidence Place(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                      const Assignment& assignment) {
  const int rounds = grid.num_rounds();
  return {
      PlaceAccess(graph, incidence, grid, FirstRounds(assignment.operators[incidence.op], rounds)),
      PlaceLayout(graph, incidence.tensor, grid,
                  FirstRounds(assignment.tensors[incidence.tensor], rounds))};
}

constexpr int64_t kUnknown = -1;

/*! \brief Refuse a plan that keeps tensors which are written in place, because a kept region must
 * not change during the step. */
void CheckKept(const Graph& graph, const Assignment& assignment) {
  if (assignment.kept.size() != assignment.tensors.size()) {
    Refuse("it is said of ", assignment.kept.size(),
           " tensors whether they are kept, the graph has ", graph.num_tensors());
  }
  if (graph.relays_in_groups()) Refuse("workers that relay to each other keep no fetched regions");
  for (int id = 0; id < graph.num_operators(); ++id) {
    for (const Input& input : graph.op(id).inputs) {
      if (input.is_held && assignment.IsKept(input.tensor)) {
        Refuse("operator ", id, " writes tensor ", input.tensor,
               " in place, so what was fetched of it cannot be kept");
      }
    }
  }
}

}  // namespace

void CheckAssignment(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  const size_t rounds = grid.num_rounds();
  if (assignment.operators.size() != static_cast<size_t>(graph.num_operators()) ||
      assignment.tensors.size() != static_cast<size_t>(graph.num_tensors())) {
    Refuse("the plan has ", assignment.operators.size(), " operators and ",
           assignment.tensors.size(), " tensors, the graph has ", graph.num_operators(), " and ",
           graph.num_tensors());
  }
  const auto check_length = [&](const std::string& subject, const std::vector<int>& choice) {
    if (choice.size() == rounds) return;
    Refuse(subject, " has ", choice.size(), " choices: one for each of ", rounds,
           " rounds is needed");
  };
  if (!assignment.kept.empty()) CheckKept(graph, assignment);
  for (int id = 0; id < graph.num_tensors(); ++id) {
    const std::string subject = NameOf({true, id});
    check_length(subject, assignment.tensors[id]);
    CheckChoice(graph, grid, {true, id}, assignment.tensors[id]);
    if (assignment.tensors[id] != assignment.tensors[graph.TensorClass(id)]) {
      Refuse(subject, " is tied to tensor ", graph.TensorClass(id),
             " and must have the same layout");
    }
  }
  for (int id = 0; id < graph.num_operators(); ++id) {
    const std::string subject = NameOf({false, id});
    check_length(subject, assignment.operators[id]);
    CheckChoice(graph, grid, {false, id}, assignment.operators[id]);
    const int root = graph.ChoiceRoot(id);
    if (assignment.operators[id] != assignment.operators[root]) {
      Refuse(subject, " shares the choice of operator ", root, " and must equal it");
    }
    const int followed = graph.op(id).follows_tensor;
    if (followed >= 0 && assignment.operators[id] != assignment.tensors[followed]) {
      Refuse(subject, " follows tensor ", followed, " and must equal its layout");
    }
  }
}

PlanCost EvaluatePlan(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  CheckAssignment(graph, grid, assignment);
  PlanCost cost;
  const std::vector<Incidence> incidences =
      CollectIncidences(graph, FindSharers(graph, grid, assignment));
  const std::vector<int> kinds = NumberKinds(graph, incidences, assignment);
  for (int rounds = 1; rounds <= grid.num_rounds(); ++rounds) {
    const WorkerGrid prefix = grid.Prefix(rounds);
    int64_t level_bytes = 0;
    FetchedRegions fetched(graph, prefix, assignment);
    std::vector<int64_t> bytes_by_kind(incidences.size(), kUnknown);
    for (int id = 0; id < graph.num_tensors(); ++id) {
      level_bytes += HoldingCost(graph, id, prefix, FirstRounds(assignment.tensors[id], rounds));
    }
    for (size_t i = 0; i < incidences.size(); ++i) {
      const Incidence& incidence = incidences[i];
      int64_t& bytes = bytes_by_kind[kinds[i]];
      if (bytes == kUnknown) {
        auto [access, layout] = Place(graph, incidence, prefix, assignment);
        if (IsKeptRead(incidence, assignment)) fetched.Discharge(incidence, &access);
        bytes = IncidenceBytes(incidence, access, layout, prefix, graph.tensor(incidence.tensor));
      }
      if (bytes >= kForbiddenBytes && !IsInPlace(incidence))
        throw std::overflow_error(kTooManyBytes);
      if (bytes >= kForbiddenBytes) {
        Refuse("operator ", incidence.op, " writes tensor ", incidence.tensor,
               " in place: each worker's region must be exactly its shard, "
               "and this plan splits them differently");
      }
      level_bytes += bytes;
      if (rounds == grid.num_rounds() && bytes > 0) {
        cost.items.push_back(
            {incidence.group, incidence.tensor, incidence.phase, bytes, incidence.is_write});
      }
    }
    cost.round_bytes.push_back(level_bytes - cost.total_bytes);
    cost.total_bytes = level_bytes;
  }
  return cost;
}

LevelCounts CountLevels(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  CheckAssignment(graph, grid, assignment);
  const WorkerGrid level_grid =
      grid.has_prices() ? grid
                        : WorkerGrid(grid.factors(), std::vector<double>(grid.num_rounds(), 1.0));
  const std::vector<int64_t> zeros(grid.num_rounds(), 0);
  LevelCounts total{zeros, zeros, 0};
  FetchedRegions fetched(graph, level_grid, assignment);
  const std::vector<Incidence> incidences =
      CollectIncidences(graph, FindSharers(graph, grid, assignment));
  const std::vector<int> kinds = NumberKinds(graph, incidences, assignment);
  std::vector<LevelCounts> known(incidences.size());  // by kind; without numbers if unknown
  for (size_t i = 0; i < incidences.size(); ++i) {
    const Incidence& incidence = incidences[i];
    LevelCounts& counts = known[kinds[i]];
    if (counts.bytes.empty()) {
      auto [access, layout] = Place(graph, incidence, level_grid, assignment);
      if (IsKeptRead(incidence, assignment)) fetched.Discharge(incidence, &access);
      counts = CountLevels(incidence, access, layout, level_grid, graph.tensor(incidence.tensor));
    }
    for (int level = 0; level < grid.num_rounds(); ++level) {
      total.bytes[level] += counts.bytes[level];
      total.waits[level] += counts.waits[level];
    }
    total.excess_bytes += counts.excess_bytes;
  }
  for (int round = grid.num_rounds(); round-- > 0;) {
    const int64_t taken = std::min(total.excess_bytes, total.bytes[round]);
    total.bytes[round] -= taken;
    total.excess_bytes -= taken;
  }
  return total;
}

namespace {

/*! \brief Return the bytes of the regions that workers fetch for a read. */
int64_t FetchedBytes(const PlacedAccess& access, const Boxes& shards, int64_t element_bytes) {
  int64_t elements = 0;
  for (size_t i = 0; i < access.regions.size(); ++i) {
    const Boxes& regions = access.regions[i];
    for (int worker = 0; worker < regions.count(); ++worker) {
      if (access.is_charged[i][worker] &&
          !IsEqualBox(regions[worker], shards[worker], regions.rank()))
        elements += Volume(regions[worker], regions.rank());
    }
  }
  return elements * element_bytes;
}

}  // namespace

std::vector<Keeping> WeighKeeping(const Graph& graph, const WorkerGrid& grid,
                                  const Assignment& assignment) {
  CheckAssignment(graph, grid, assignment);
  std::vector<Keeping> keeping(graph.num_tensors());
  FetchedRegions fetched(graph, grid, assignment);
  for (const Incidence& incidence :
       CollectIncidences(graph, FindSharers(graph, grid, assignment))) {
    if (incidence.is_write || assignment.IsKept(incidence.tensor)) continue;
    const Tensor& tensor = graph.tensor(incidence.tensor);
    auto [access, layout] = Place(graph, incidence, grid, assignment);
    Keeping& effects = keeping[incidence.tensor];
    effects.saved_bytes += IncidenceBytes(incidence, access, layout, grid, tensor);
    effects.held_bytes += FetchedBytes(access, layout.shards, tensor.element_bytes);
    fetched.Discharge(incidence, &access);
    effects.saved_bytes -= IncidenceBytes(incidence, access, layout, grid, tensor);
    effects.held_bytes -= FetchedBytes(access, layout.shards, tensor.element_bytes);
  }
  return keeping;
}

}  // namespace tofu
