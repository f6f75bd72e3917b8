/*!
 * \file greedy.cc
 * \brief Tensors by size, and the operators around each.
 */
#include "core/search/greedy.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "core/search/exact_problem.h"

namespace tofu {

namespace {

class GreedySearch {
 public:
  GreedySearch(const Graph& graph, const WorkerGrid& grid, const Hints& hints)
      : graph_(graph),
        grid_(grid),
        variables_(graph, grid, hints),
        sequences_(variables_.Sequences()),
        problem_(BuildRounds(variables_, grid, sequences_)),
        around_(variables_.size()),
        values_(variables_.size(), kUnknown) {
    for (const PairTable& pair : problem_.pairs) {
      around_[pair.first].push_back(&pair);
      around_[pair.second].push_back(&pair);
    }
  }

  SearchResult Run() {
    for (int variable : OrderTensors()) {
      values_[variable] = FindCheapest(variable);
      for (const PairTable* pair : around_[variable]) {
        const int neighbour = Other(*pair, variable);
        if (IsFreeOperator(neighbour)) values_[neighbour] = FindCheapest(neighbour);
      }
    }
    for (int variable = 0; variable < variables_.size(); ++variable) {
      if (values_[variable] == kUnknown) values_[variable] = FindCheapest(variable);
    }
    return MakeResult();
  }

 private:
  static constexpr int kUnknown = -1;

  /*! \brief Tensor classes, the largest first. Structure breaks ties. */
  std::vector<int> OrderTensors() {
    std::vector<int64_t> sizes(variables_.size(), 0);
    for (int id = 0; id < graph_.num_tensors(); ++id) {
      const int variable = variables_.OfTensor(id);
      sizes[variable] = std::max(sizes[variable],
                                 graph_.tensor(id).NumElements() * graph_.tensor(id).element_bytes);
    }
    std::vector<int> order;
    for (int v = 0; v < variables_.size(); ++v) {
      if (variables_.IsTensor(v)) order.push_back(v);
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::make_tuple(-sizes[a], variables_.label(a), a) <
             std::make_tuple(-sizes[b], variables_.label(b), b);
    });
    return order;
  }

  static int Other(const PairTable& pair, int variable) {
    return pair.first == variable ? pair.second : pair.first;
  }

  bool IsFreeOperator(int variable) const {
    return !variables_.IsTensor(variable) && values_[variable] == kUnknown;
  }

  static int64_t Bytes(const PairTable& pair, int variable, size_t value, size_t other_value) {
    return pair.first == variable ? pair.bytes->at(value, other_value)
                                  : pair.bytes->at(other_value, value);
  }

  /*! \brief Costs of the values of `variable` with all neighbours that are known. */
  std::vector<int64_t> FindKnownBytes(int variable) const {
    std::vector<int64_t> bytes = ListBytes(problem_.unary[variable]);
    for (const PairTable* pair : around_[variable]) {
      const int other = values_[Other(*pair, variable)];
      for (size_t x = 0; other != kUnknown && x < bytes.size(); ++x)
        bytes[x] += Bytes(*pair, variable, x, other);
    }
    return bytes;
  }

  /*! \brief Return the cheapest value of `variable` if all free operators around it answer with
   * their cheapest values. */
  int FindCheapest(int variable) const {
    std::vector<int64_t> bytes = FindKnownBytes(variable);
    for (const PairTable* pair : around_[variable]) {
      const int neighbour = Other(*pair, variable);
      if (!IsFreeOperator(neighbour)) continue;
      const std::vector<int64_t> known = FindKnownBytes(neighbour);
      for (size_t x = 0; x < bytes.size(); ++x) {
        int64_t least = kForbiddenBytes;
        for (size_t y = 0; y < known.size(); ++y)
          least = std::min(least, known[y] + Bytes(*pair, neighbour, y, x));
        bytes[x] += least;
      }
    }
    return static_cast<int>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
  }

  SearchResult MakeResult() const {
    SearchResult result;
    result.assignment = variables_.MakeAssignment(
        [&](int variable) { return (*sequences_[variable])[values_[variable]]; });
    try {
      result.round_bytes = EvaluatePlan(graph_, grid_, result.assignment).round_bytes;
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(error.what());
    }
    return result;
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  SearchVariables variables_;
  std::vector<SharedSequences> sequences_;
  PairwiseProblem problem_;
  std::vector<std::vector<const PairTable*>> around_;  // by variable
  std::vector<int> values_;  // by variable: the position of its sequence, or kUnknown
};

}  // namespace

SearchResult SearchGreedy(const Graph& graph, const WorkerGrid& grid, const Hints& hints) {
  return GreedySearch(graph, grid, hints).Run();
}

}  // namespace tofu
