/*!
 * \file evaluate.cc
 * \brief Checks of whole plans, and what they cost, without tables.
 */
#include <algorithm>
#include <stdexcept>
#include <string>

#include "cost.h"
#include "sharing.h"

namespace tofu {

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
    for (int id = 0; id < graph.num_tensors(); ++id) {
      const std::vector<int>& layout = assignment.tensors[id];
      level_bytes +=
          HoldingCost(graph.tensor(id), prefix, {layout.begin(), layout.begin() + steps});
    }
    for (const Incidence& incidence : incidences) {
      const std::vector<int>& choice = assignment.operators[incidence.op];
      const std::vector<int>& layout = assignment.tensors[incidence.tensor];
      const Tensor& tensor = graph.tensor(incidence.tensor);
      const PlacedAccess access =
          PlaceAccess(graph, incidence, prefix, {choice.begin(), choice.begin() + steps});
      const PlacedLayout placed =
          PlaceLayout(tensor, prefix, {layout.begin(), layout.begin() + steps});
      const int64_t bytes = IncidenceBytes(incidence, access, placed, prefix, tensor.element_bytes);
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

std::vector<int64_t> CountLevelBytes(const Graph& graph, const WorkerGrid& grid,
                                     const Assignment& assignment) {
  CheckAssignment(graph, grid, assignment);
  const WorkerGrid levels(grid.factors(), std::vector<double>(grid.num_steps(), 1.0));
  std::vector<int64_t> total(grid.num_steps(), 0);
  for (const Incidence& incidence :
       CollectIncidences(graph, FindSharers(graph, assignment.operators))) {
    const Tensor& tensor = graph.tensor(incidence.tensor);
    const std::vector<int64_t> bytes = LevelBytes(
        incidence, PlaceAccess(graph, incidence, levels, assignment.operators[incidence.op]),
        PlaceLayout(tensor, levels, assignment.tensors[incidence.tensor]), levels,
        tensor.element_bytes);
    for (size_t level = 0; level < bytes.size(); ++level) total[level] += bytes[level];
  }
  return total;
}

}  // namespace tofu
