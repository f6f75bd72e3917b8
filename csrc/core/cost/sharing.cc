/*!
 * \file sharing.cc
 * \brief Operators of one group, phase and choice.
 */
#include "core/cost/sharing.h"

#include <map>
#include <tuple>
#include <utility>

namespace tofu {

namespace {

/*! \brief The first operator of equal group, phase and `choice_of(operator)`. */
template <typename ChoiceOf>
std::vector<int> FindFirst(const Graph& graph, ChoiceOf choice_of) {
  using Choice = decltype(choice_of(0));
  std::map<std::tuple<int64_t, int, Choice>, int> first;
  std::vector<int> sharers;
  for (int id = 0; id < graph.num_operators(); ++id) {
    const Operator& op = graph.op(id);
    sharers.push_back(
        first.emplace(std::make_tuple(op.group, op.phase, choice_of(id)), id).first->second);
  }
  return sharers;
}

}  // namespace

Sharers FindSharers(const Graph& graph, const std::vector<std::vector<int>>& choices,
                    std::vector<char> reread) {
  return {FindFirst(graph, [&](int id) { return choices[id]; }), std::move(reread)};
}

Sharers FindBoundSharers(const Graph& graph) {
  const auto bound_to = [&](int id) {
    const int followed = graph.op(id).follows_tensor;
    return followed >= 0 ? std::make_pair(true, graph.TensorClass(followed))
                         : std::make_pair(false, graph.ChoiceRoot(id));
  };
  return {FindFirst(graph, bound_to), {}};
}

}  // namespace tofu
