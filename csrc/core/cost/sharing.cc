/*!
 * \file sharing.cc
 */
#include "core/cost/sharing.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/cost/cost.h"

namespace tofu {

namespace {

/*! \brief Return, for each operator, the first one with equal group, phase and
 * choice_of(operator). */
template <typename ChoiceOf>
std::vector<int> FindFirst(const Graph& graph, ChoiceOf choice_of) {
  using Choice = decltype(choice_of(0));
  std::map<std::tuple<int64_t, int, Choice>, int> first_by_key;
  std::vector<int> first_operators;
  for (int id = 0; id < graph.num_operators(); ++id) {
    const Operator& op = graph.op(id);
    first_operators.push_back(
        first_by_key.emplace(std::make_tuple(op.group, op.phase, choice_of(id)), id).first->second);
  }
  return first_operators;
}

/*! \brief Return the variable of the search that determines an operator's choice: true and a
 * tensor, or false and an operator. */
std::pair<bool, int> BoundTo(const Graph& graph, int id) {
  const int followed = graph.op(id).follows_tensor;
  return followed >= 0 ? std::make_pair(true, graph.TensorClass(followed))
                       : std::make_pair(false, graph.ChoiceRoot(id));
}

std::vector<int> FindFirstBound(const Graph& graph) {
  return FindFirst(graph, [&](int id) { return BoundTo(graph, id); });
}

/*! \brief Let all reads of operator i share fetches with the reads of operator first[i], except
 * reads of tensors with is_alone(tensor). */
template <typename IsAlone>
Sharers ShareByOperator(const Graph& graph, const std::vector<int>& first, IsAlone is_alone) {
  Sharers sharers;
  for (int id = 0; id < graph.num_operators(); ++id) {
    sharers.of_read.emplace_back();
    for (const Input& input : graph.op(id).inputs)
      sharers.of_read.back().push_back(is_alone(input.tensor) ? id : first[id]);
  }
  return sharers;
}

/*! \brief Let reads of one tensor in one phase share fetches if key_of(operator, input) is equal.
 * Updates, unread inputs, tensors that are written in place, and tensors with is_alone(tensor)
 * share nothing. */
template <typename KeyOf, typename IsAlone>
Sharers ShareByRegion(const Graph& graph, KeyOf key_of, IsAlone is_alone) {
  constexpr int kNoOperator = -1;
  using Key = decltype(key_of(0, std::declval<const Input&>()));
  std::map<std::tuple<int, int, int, Key>, int>
      number_by_key;  // tensor, phase, operator that shares nothing
  const std::vector<char> held_tensors = FindHeldTensors(graph);
  Sharers sharers;
  for (int id = 0; id < graph.num_operators(); ++id) {
    const Operator& op = graph.op(id);
    sharers.of_read.emplace_back();
    for (const Input& input : op.inputs) {
      const bool shares_nothing = op.follows_tensor >= 0 || !input.is_read ||
                                  held_tensors[input.tensor] || is_alone(input.tensor);
      const auto key = std::make_tuple(input.tensor, op.phase, shares_nothing ? id : kNoOperator,
                                       key_of(id, input));
      sharers.of_read.back().push_back(
          number_by_key.emplace(key, static_cast<int>(number_by_key.size())).first->second);
    }
  }
  return sharers;
}

template <typename T>
void Append(const T& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/*! \brief Append the number of values, then the values. */
template <typename T>
void AppendAll(const std::vector<T>& values, std::string* bytes) {
  Append(values.size(), bytes);
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/*! \brief Return the regions that all workers read, as bytes. */
std::string DescribeRegions(const Graph& graph, int op, const Input& input, const WorkerGrid& grid,
                            const std::vector<int>& choice) {
  const std::vector<int64_t>& shape = graph.tensor(input.tensor).shape;
  const Boxes regions = FindNeededRegions(input, shape, SplitAxes(graph, grid, op, choice), choice);
  std::string bytes;
  bool reaches_outside = false;
  for (int worker = 0; worker < grid.num_workers(); ++worker) {
    const bool is_zero = IsZeroAddend(input, grid, choice, worker);
    Append(is_zero, &bytes);
    for (size_t d = 0; d < shape.size() && !is_zero; ++d) {
      const Interval interval = regions[worker][d];
      Append(interval.begin, &bytes);
      Append(interval.end, &bytes);
      reaches_outside = reaches_outside || !Contains({0, shape[d]}, interval);
    }
  }
  if (reaches_outside) Append(input.fill, &bytes);
  return bytes;
}

}  // namespace

std::vector<char> FindHeldTensors(const Graph& graph) {
  std::vector<char> held(graph.num_tensors(), 0);
  for (int id = 0; id < graph.num_operators(); ++id) {
    for (const Input& input : graph.op(id).inputs) {
      if (input.is_held) held[input.tensor] = 1;
    }
  }
  return held;
}

int RegionNumbers::Of(int op, const Input& input, const std::vector<int>& choice) {
  std::string access;
  AppendAll(DescribeAccess(input), &access);
  AppendAll(graph_.tensor(input.tensor).shape, &access);
  AppendAll(graph_.op(op).axis_extents, &access);
  AppendAll(choice, &access);
  const auto [number, is_new] = accesses_.Add(std::move(access));
  if (is_new)
    of_access_.push_back(regions_.Add(DescribeRegions(graph_, op, input, grid_, choice)).first);
  return of_access_[number];
}

Sharers FindSharers(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment) {
  const auto is_reread = [&](int tensor) {
    return !assignment.reread.empty() && assignment.reread[tensor] != 0;
  };
  if (!graph.shares_regions()) {
    const auto choice_of = [&](int id) { return assignment.operators[id]; };
    return ShareByOperator(graph, FindFirst(graph, choice_of), is_reread);
  }
  RegionNumbers regions(graph, grid);
  const auto regions_of = [&](int id, const Input& input) {
    return regions.Of(id, input, assignment.operators[id]);
  };
  return ShareByRegion(graph, regions_of, is_reread);
}

Sharers FindBoundSharers(const Graph& graph) {
  const auto never = [](int) { return false; };
  if (!graph.shares_regions()) return ShareByOperator(graph, FindFirstBound(graph), never);
  const auto access_of = [&](int id, const Input& input) {
    return std::make_pair(BoundTo(graph, id), DescribeAccess(input));
  };
  return ShareByRegion(graph, access_of, never);
}

bool MayShareByChance(const Graph& graph) {
  return !graph.shares_regions() &&
         FindFirstBound(graph) != FindFirst(graph, [](int) { return 0; });
}

}  // namespace tofu
