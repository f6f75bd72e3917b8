/*!
 * \file cost.cc
 * \brief Bytes of incidences and of whole plans.
 */
#include "cost.h"

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "sharing.h"

namespace tofu {

namespace {

bool IsEqualRow(const Row& a, const Row& b) {
  return a.lower == b.lower && a.upper == b.upper && a.terms.size() == b.terms.size() &&
         std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(),
                    [](const Term& s, const Term& t) {
                      return s.axis == t.axis && s.coefficient == t.coefficient;
                    });
}

bool IsEqualAccess(const Input& a, const Input& b) {
  return a.fill == b.fill && a.is_held == b.is_held && a.is_read == b.is_read &&
         a.addend_axes == b.addend_axes && a.rows.size() == b.rows.size() &&
         std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), IsEqualRow);
}

void AddRead(const Graph& graph, const std::vector<int>& sharers, int op, const Input& input,
             std::vector<Incidence>* of_tensor) {
  const Operator& reader = graph.op(op);
  auto found = std::find_if(of_tensor->begin(), of_tensor->end(), [&](const Incidence& other) {
    return !other.is_write && sharers[other.op] == sharers[op];
  });
  if (found == of_tensor->end()) {
    Incidence incidence;
    incidence.op = op;
    incidence.tensor = input.tensor;
    incidence.group = reader.group;
    incidence.phase = reader.phase;
    found = of_tensor->insert(of_tensor->end(), std::move(incidence));
  }
  for (const Input* other : found->reads) {
    if (IsEqualAccess(*other, input)) return;
  }
  found->reads.push_back(&input);
}

}  // namespace

std::vector<Incidence> CollectIncidences(const Graph& graph, const std::vector<int>& sharers) {
  std::vector<Incidence> incidences;
  std::vector<Incidence> of_tensor;
  for (int id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    of_tensor.clear();
    if (tensor.producer >= 0 && tensor.IsRead()) {
      Incidence incidence;
      incidence.is_write = true;
      incidence.op = tensor.producer;
      incidence.tensor = id;
      incidence.group = graph.op(tensor.producer).group;
      incidence.phase = graph.op(tensor.producer).phase;
      incidence.write = &graph.op(tensor.producer).outputs[tensor.producer_output];
      of_tensor.push_back(std::move(incidence));
    }
    for (int reader : tensor.readers) {
      for (const Input& input : graph.op(reader).inputs) {
        if (input.tensor == id && input.is_read) AddRead(graph, sharers, reader, input, &of_tensor);
      }
    }
    for (Incidence& incidence : of_tensor) incidences.push_back(std::move(incidence));
  }
  return incidences;
}

std::vector<int> ReplicaNumbers(const Output& output, const WorkerGrid& grid,
                                const std::vector<int>& choice) {
  std::vector<int> numbers(grid.num_workers(), 0);
  for (int step = 0; step < static_cast<int>(choice.size()); ++step) {
    if (choice[step] != kReplicated && output.combine[choice[step]] != Combine::kReplicate)
      continue;
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      numbers[worker] =
          numbers[worker] * static_cast<int>(grid.factor(step)) + grid.digit(worker, step);
    }
  }
  return numbers;
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
  for (int step = 0; step < static_cast<int>(choice.size()); ++step) {
    if (grid.digit(worker, step) == 0) continue;
    if (std::find(input.addend_axes.begin(), input.addend_axes.end(), choice[step]) !=
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
    reaches_outside = reaches_outside || a[d].begin < 0 || a[d].end > shape[d];
  }
  return !reaches_outside || fill_a == fill_b;
}

namespace {

/*!
 * \brief How often the regions of the holders of one replica number cover every cell of the tensor,
 * where that is the same for every cell and number; else 0.
 *
 * Then the cells that a worker gathers need not be looked up holder by holder.
 */
int64_t CountTilings(const Boxes& regions, const std::vector<int>& replica,
                     const std::vector<int64_t>& shape) {
  const int rank = regions.rank();
  int64_t cells = 1;
  for (int64_t extent : shape) cells *= extent;
  int64_t copies = 0;
  for (int a = 0; a < regions.count(); ++a) {
    int64_t equal = 0;
    int64_t volume = 0;
    for (int b = 0; b < regions.count(); ++b) {
      if (replica[a] != replica[b]) continue;
      volume += Volume(regions[b], rank);
      if (IsEqualBox(regions[a], regions[b], rank)) {
        ++equal;
      } else if (IntersectionVolume(regions[a], regions[b], rank) > 0) {
        return 0;
      }
    }
    if (a == 0) copies = equal;
    if (equal != copies || volume != copies * cells) return 0;
  }
  return copies;
}

}  // namespace

PlacedAccess PlaceAccess(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
                         const std::vector<int>& choice) {
  PlacedAccess placed;
  const Boxes axis_boxes = SplitBoxes(graph.op(incidence.op).axis_extents, grid, choice);
  const std::vector<int64_t>& shape = graph.tensor(incidence.tensor).shape;
  if (incidence.is_write) {
    placed.regions.push_back(
        ClipBoxes(ComputeRegions(incidence.write->rows, shape, axis_boxes, choice), shape));
    placed.replica = ReplicaNumbers(*incidence.write, grid, choice);
    placed.is_partial = IsPartialResult(*incidence.write, choice);
    placed.copies = CountTilings(placed.regions.front(), placed.replica, shape);
    return placed;
  }
  std::vector<Boxes> unclipped;
  for (const Input* input : incidence.reads) {
    unclipped.push_back(ComputeRegions(input->rows, shape, axis_boxes, choice));
    std::vector<char> charged(grid.num_workers());
    for (int worker = 0; worker < grid.num_workers(); ++worker) {
      bool is_new = !IsZeroAddend(*input, grid, choice, worker);
      for (size_t other = 0; is_new && other + 1 < unclipped.size(); ++other) {
        is_new = !placed.is_charged[other][worker] ||
                 !IsSameRegion(unclipped[other][worker], incidence.reads[other]->fill,
                               unclipped.back()[worker], input->fill, shape);
      }
      charged[worker] = is_new;
    }
    placed.is_charged.push_back(std::move(charged));
    placed.regions.push_back(ClipBoxes(unclipped.back(), shape));
    if (input->is_held) placed.held.push_back(unclipped.back());
  }
  return placed;
}

PlacedLayout PlaceLayout(const Tensor& tensor, const WorkerGrid& grid,
                         const std::vector<int>& layout) {
  PlacedLayout placed;
  placed.shards = SplitBoxes(tensor.shape, grid, layout);
  placed.can_scatter = !tensor.is_replicable && !tensor.shape.empty() && HasReplicatedStep(layout);
  if (placed.can_scatter)
    placed.scattered = ScatterShards(placed.shards, tensor.shape, grid, layout);
  return placed;
}

namespace {

int64_t ReadCells(const PlacedAccess& access, const Boxes& shards) {
  int64_t cells = 0;
  for (size_t i = 0; i < access.regions.size(); ++i) {
    const Boxes& regions = access.regions[i];
    for (int worker = 0; worker < regions.count(); ++worker) {
      if (!access.is_charged[i][worker]) continue;
      cells += Volume(regions[worker], regions.rank()) -
               IntersectionVolume(regions[worker], shards[worker], regions.rank());
    }
  }
  return cells;
}

/*! \brief Cells of every worker's box that the other holders of its replica number produced. */
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
      cells += IntersectionVolume(boxes[worker], regions[holder], boxes.rank());
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

}  // namespace

int64_t IncidenceBytes(const Incidence& incidence, const PlacedAccess& access,
                       const PlacedLayout& layout, int64_t element_bytes) {
  if (!incidence.is_write) {
    return IsHeld(access, layout.shards) ? element_bytes * ReadCells(access, layout.shards)
                                         : kForbiddenBytes;
  }
  if (!access.is_partial || !layout.can_scatter)
    return element_bytes * GatherCells(access, layout.shards);
  // Reduce-scatter of the parts, then every worker gathers the parts of its shard that it did not
  // sum itself.
  const int64_t gathered = TotalVolume(layout.shards) - TotalVolume(layout.scattered);
  return element_bytes * (GatherCells(access, layout.scattered) + gathered);
}

void CheckAssignment(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  const size_t steps = grid.num_steps();
  if (assignment.operators.size() != static_cast<size_t>(graph.num_operators()) ||
      assignment.tensors.size() != static_cast<size_t>(graph.num_tensors())) {
    throw std::invalid_argument("the plan has " + std::to_string(assignment.operators.size()) +
                                " operators and " + std::to_string(assignment.tensors.size()) +
                                " tensors, the graph has " + std::to_string(graph.num_operators()) +
                                " and " + std::to_string(graph.num_tensors()));
  }
  const auto check = [&](const std::string& subject, const std::vector<int64_t>& extents,
                         const std::vector<int>& choice) {
    if (choice.size() != steps) {
      throw std::invalid_argument(subject + " has " + std::to_string(choice.size()) +
                                  " choices: one for each of " + std::to_string(steps) +
                                  " steps is needed");
    }
    CheckChoice(subject, extents, grid, choice);
  };
  for (int id = 0; id < graph.num_tensors(); ++id) {
    const std::string subject = "tensor " + std::to_string(id);
    check(subject, graph.tensor(id).shape, assignment.tensors[id]);
    if (assignment.tensors[id] != assignment.tensors[graph.TensorClass(id)]) {
      throw std::invalid_argument(subject + " is tied to tensor " +
                                  std::to_string(graph.TensorClass(id)) +
                                  " and must have the same layout");
    }
  }
  for (int id = 0; id < graph.num_operators(); ++id) {
    const std::string subject = "operator " + std::to_string(id);
    check(subject, graph.op(id).axis_extents, assignment.operators[id]);
    const int root = graph.ChoiceRoot(id);
    if (assignment.operators[id] != assignment.operators[root]) {
      throw std::invalid_argument(subject + " shares the choice of operator " +
                                  std::to_string(root) + " and must equal it");
    }
    const int followed = graph.op(id).follows_tensor;
    if (followed >= 0 && assignment.operators[id] != assignment.tensors[followed]) {
      throw std::invalid_argument(subject + " follows tensor " + std::to_string(followed) +
                                  " and must equal its layout");
    }
  }
}

PlanCost EvaluatePlan(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  CheckAssignment(graph, grid, assignment);
  PlanCost cost;
  const std::vector<Incidence> incidences =
      CollectIncidences(graph, FindSharers(graph, assignment.operators));
  for (int steps = 1; steps <= grid.num_steps(); ++steps) {
    const WorkerGrid prefix = grid.Prefix(steps);
    int64_t level_bytes = 0;
    for (const Incidence& incidence : incidences) {
      const std::vector<int>& choice = assignment.operators[incidence.op];
      const std::vector<int>& layout = assignment.tensors[incidence.tensor];
      const Tensor& tensor = graph.tensor(incidence.tensor);
      const PlacedAccess access =
          PlaceAccess(graph, incidence, prefix, {choice.begin(), choice.begin() + steps});
      const PlacedLayout placed =
          PlaceLayout(tensor, prefix, {layout.begin(), layout.begin() + steps});
      const int64_t bytes = IncidenceBytes(incidence, access, placed, tensor.element_bytes);
      if (bytes >= kForbiddenBytes) {
        throw std::invalid_argument("operator " + std::to_string(incidence.op) + " writes tensor " +
                                    std::to_string(incidence.tensor) +
                                    " in place: each worker's region must be exactly its shard, "
                                    "and this plan splits them differently");
      }
      level_bytes += bytes;
      if (steps == grid.num_steps() && bytes > 0) {
        cost.items.push_back(
            {incidence.group, incidence.tensor, incidence.phase, bytes, incidence.is_write});
      }
    }
    cost.step_bytes.push_back(level_bytes - cost.total_bytes);
    cost.total_bytes = level_bytes;
  }
  return cost;
}

}  // namespace tofu
