/*!
 * \file greedy.cc
 * \brief Tensors by size, and the operators around each.
 */
#include "core/search/greedy.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "core/cost/tables.h"

namespace tofu {

namespace {

class GreedySearch {
 public:
  GreedySearch(const Graph& graph, const WorkerGrid& grid, const Hints& hints)
      : graph_(graph),
        grid_(grid),
        variables_(graph, grid, hints),
        tables_(variables_.incidences()),
        values_(variables_.size(), kUnknown),
        incidences_of_(variables_.size()) {
    tables_.SetGrid(grid);
    for (const SharedSequences& sequences : variables_.Sequences())
      lists_.push_back(tables_.Intern(*sequences));
    for (size_t i = 0; i < tables_.incidences().size(); ++i) {
      incidences_of_[OperatorVariable(i)].push_back(i);
      if (TensorVariable(i) != OperatorVariable(i)) incidences_of_[TensorVariable(i)].push_back(i);
    }
  }

  SearchResult Run() {
    for (int variable : OrderTensors()) {
      values_[variable] = FindCheapest(variable);
      for (int neighbour : NeighboursOf(variable)) {
        if (!variables_.IsTensor(neighbour) && values_[neighbour] == kUnknown)
          values_[neighbour] = FindCheapest(neighbour);
      }
    }
    for (int variable = 0; variable < variables_.size(); ++variable) {
      if (values_[variable] == kUnknown) values_[variable] = FindCheapest(variable);
    }
    return MakeResult();
  }

 private:
  static constexpr int kUnknown = -1;

  int OperatorVariable(size_t i) const { return variables_.OfOperator(tables_.incidences()[i].op); }
  int TensorVariable(size_t i) const { return variables_.OfTensor(tables_.incidences()[i].tensor); }

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

  std::vector<int> NeighboursOf(int variable) const {
    std::vector<int> neighbours;
    for (size_t i : incidences_of_[variable]) {
      const int other = Other(i, variable);
      if (other != variable &&
          std::find(neighbours.begin(), neighbours.end(), other) == neighbours.end())
        neighbours.push_back(other);
    }
    return neighbours;
  }

  int Other(size_t incidence, int variable) const {
    return OperatorVariable(incidence) == variable ? TensorVariable(incidence)
                                                   : OperatorVariable(incidence);
  }

  size_t CountValues(int variable) const { return lists_[variable].choices.size(); }

  /*! \brief Bytes of an incidence at values of its variables. */
  int64_t Bytes(size_t incidence, int variable, size_t value, size_t other_value) {
    const int op = OperatorVariable(incidence);
    const int tensor = TensorVariable(incidence);
    const bool is_operator = op == variable;
    const size_t row = is_operator ? value : other_value;
    const size_t column = is_operator && tensor != op ? other_value : value;
    return tables_.Get(incidence, lists_[op], lists_[tensor])[row * CountValues(tensor) + column];
  }

  /*! \brief Cost of `variable` at `value` with all neighbours that are known. */
  int64_t KnownBytes(int variable, size_t value) {
    int64_t bytes = 0;
    for (size_t i : incidences_of_[variable]) {
      const int other = Other(i, variable);
      if (other == variable || values_[other] != kUnknown)
        bytes += Bytes(i, variable, value, other == variable ? value : values_[other]);
    }
    return bytes;
  }

  /*! \brief Least cost of a free neighbour if `variable` takes `value`. */
  int64_t AnswerBytes(int neighbour, const std::vector<int64_t>& known, int variable,
                      size_t value) {
    int64_t least = kForbiddenBytes;
    for (size_t answer = 0; answer < known.size(); ++answer) {
      int64_t bytes = known[answer];
      for (size_t i : incidences_of_[neighbour]) {
        if (Other(i, neighbour) == variable) bytes += Bytes(i, neighbour, answer, value);
      }
      least = std::min(least, bytes);
    }
    return least;
  }

  int FindCheapest(int variable) {
    std::vector<int64_t> bytes(CountValues(variable));
    for (size_t x = 0; x < bytes.size(); ++x) bytes[x] = KnownBytes(variable, x);
    for (int neighbour : NeighboursOf(variable)) {
      if (values_[neighbour] != kUnknown || variables_.IsTensor(neighbour)) continue;
      std::vector<int64_t> known(CountValues(neighbour));
      for (size_t y = 0; y < known.size(); ++y) known[y] = KnownBytes(neighbour, y);
      for (size_t x = 0; x < bytes.size(); ++x)
        bytes[x] += AnswerBytes(neighbour, known, variable, x);
    }
    return static_cast<int>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
  }

  SearchResult MakeResult() {
    SearchResult result;
    result.assignment = variables_.MakeAssignment(
        [&](int variable) { return lists_[variable].choices[values_[variable]]; });
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
  CostTables tables_;
  std::vector<ChoiceList> lists_;  // by variable
  std::vector<int> values_;        // by variable: index of its sequence, or kUnknown
  std::vector<std::vector<size_t>> incidences_of_;
};

}  // namespace

SearchResult SearchGreedy(const Graph& graph, const WorkerGrid& grid, const Hints& hints) {
  return GreedySearch(graph, grid, hints).Run();
}

}  // namespace tofu
