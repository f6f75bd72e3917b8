/*!
 * \file recursive.cc
 */
#include "core/search/recursive.h"

#include <stdexcept>
#include <utility>

#include "core/base/text.h"
#include "core/cost/tables.h"
#include "core/elimination/dominance.h"
#include "core/search/ties.h"

namespace tofu {

namespace {

class RecursiveSearch {
 public:
  explicit RecursiveSearch(const SearchVariables& variables)
      : graph_(variables.graph()),
        grid_(variables.grid()),
        variables_(variables),
        tables_(variables.incidences()),
        histories_(variables_.size()),
        ties_(variables_.size()) {
    FindPairs();
  }

  SearchResult Run(const SearchProgress& progress) {
    SearchResult result;
    int64_t total_bytes = 0;
    for (int round = 0; round < grid_.num_rounds(); ++round) {
      const int64_t bytes = RunRound(round);
      result.round_bytes.push_back(bytes - total_bytes);
      total_bytes = bytes;
      if (progress) progress(round + 1, total_bytes);
    }
    result.assignment =
        variables_.MakeAssignment([this](int variable) { return histories_[variable]; });
    // The rounds count each read separately, because the cost of shared regions is not a sum over
    // pairs.
    if (graph_.shares_regions())
      result.round_bytes = EvaluatePlan(graph_, grid_, result.assignment).round_bytes;
    return result;
  }

 private:
  static constexpr int kSameVariable = -1;

  /*! \brief Group incidences by the pair of variables that they connect. */
  void FindPairs() {
    std::unordered_map<uint64_t, int> known;
    for (const Incidence& incidence : tables_.incidences()) {
      const int op = variables_.OfOperator(incidence.op);
      const int tensor = variables_.OfTensor(incidence.tensor);
      if (op == tensor) {
        pair_of_.push_back(kSameVariable);
        continue;
      }
      const uint64_t key = (static_cast<uint64_t>(op) << 32) | static_cast<uint64_t>(tensor);
      const auto found = known.emplace(key, static_cast<int>(pairs_.size()));
      if (found.second) pairs_.emplace_back(op, tensor);
      pair_of_.push_back(found.first->second);
    }
  }

  /*! \brief By variable: its history with each value of its domain appended. */
  std::vector<ChoiceList> ExtendHistories(const std::vector<std::vector<int>>& domains) {
    std::vector<ChoiceList> lists;
    lists.reserve(domains.size());
    for (size_t v = 0; v < domains.size(); ++v) {
      std::vector<std::vector<int>> choices(domains[v].size(), histories_[v]);
      for (size_t x = 0; x < choices.size(); ++x) choices[x].push_back(domains[v][x]);
      lists.push_back(tables_.Intern(std::move(choices)));
    }
    return lists;
  }

  void AddTies(int round, const std::vector<std::vector<int>>& domains,
               PairwiseProblem* problem) const {
    problem->unary.resize(domains.size());
    for (size_t v = 0; v < domains.size(); ++v) {
      for (int choice : domains[v]) {
        problem->unary[v].push_back(
            MakeWeight(0, ties_.OfChoice(variables_.label(static_cast<int>(v)), round, choice)));
      }
    }
  }

  void AddHolding(const WorkerGrid& grid, const std::vector<ChoiceList>& lists,
                  PairwiseProblem* problem) const {
    for (int id = 0; id < graph_.num_tensors(); ++id) {
      const int v = variables_.OfTensor(id);
      for (size_t x = 0; x < lists[v].choices.size(); ++x) {
        problem->unary[v][x] += MakeWeight(HoldingCost(graph_, id, grid, lists[v].choices[x]), 0);
      }
    }
  }

  void AddCosts(const std::vector<ChoiceList>& lists, PairwiseProblem* problem) {
    std::vector<std::shared_ptr<ByteMatrix>> sums;
    for (const auto& [op, tensor] : pairs_) {
      const size_t rows = lists[op].choices.size(), columns = lists[tensor].choices.size();
      sums.push_back(std::make_shared<ByteMatrix>(
          ByteMatrix{rows, columns, std::vector<int64_t>(rows * columns, 0)}));
      problem->pairs.push_back({op, tensor, sums.back()});
    }
    for (size_t i = 0; i < pair_of_.size(); ++i) {
      const ChoiceList& op = lists[variables_.OfOperator(tables_.incidences()[i].op)];
      const ChoiceList& tensor = lists[variables_.OfTensor(tables_.incidences()[i].tensor)];
      const std::vector<int64_t>& bytes = tables_.Get(i, op, tensor);
      if (pair_of_[i] == kSameVariable) {
        std::vector<Weight>& unary =
            problem->unary[variables_.OfTensor(tables_.incidences()[i].tensor)];
        for (size_t x = 0; x < unary.size(); ++x)
          unary[x] += MakeWeight(bytes[x * unary.size() + x], 0);
      } else {
        std::vector<int64_t>& sum = sums[pair_of_[i]]->entries;
        for (size_t x = 0; x < sum.size(); ++x) sum[x] += bytes[x];
      }
    }
  }

  /*! \brief Fix the next choice of every variable. Return the bytes of the rounds so far. */
  int64_t RunRound(int round) {
    const std::vector<std::vector<int>> domains = variables_.Domains(round, histories_);
    tables_.SetGrid(grid_.Prefix(round + 1));
    const std::vector<ChoiceList> lists = ExtendHistories(domains);
    PairwiseProblem problem;
    AddTies(round, domains, &problem);
    AddHolding(grid_.Prefix(round + 1), lists, &problem);
    AddCosts(lists, &problem);
    const EliminationResult best = EliminateInStages(problem);
    for (size_t v = 0; v < domains.size(); ++v) histories_[v].push_back(domains[v][best.values[v]]);
    const int64_t bytes = WeightBytes(best.weight);
    if (bytes >= kForbiddenBytes) ReportForbidden(round, lists, best);
    return bytes;
  }

  [[noreturn]] void ReportForbidden(int round, const std::vector<ChoiceList>& lists,
                                    const EliminationResult& best) {
    for (size_t i = 0; i < pair_of_.size(); ++i) {
      const Incidence& incidence = tables_.incidences()[i];
      const int op = variables_.OfOperator(incidence.op);
      const int tensor = variables_.OfTensor(incidence.tensor);
      const size_t entry = best.values[op] * lists[tensor].choices.size() + best.values[tensor];
      if (!IsInPlace(incidence)) continue;
      if (tables_.Get(i, lists[op], lists[tensor])[entry] < kForbiddenBytes) continue;
      Refuse("operator ", incidence.op, " writes tensor ", incidence.tensor,
             " in place, and no choice in round ", round,
             " makes each worker's region exactly its shard; make the tensor "
             "replicable or free its operator");
    }
    throw std::overflow_error(kTooManyBytes);
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const SearchVariables& variables_;
  CostTables tables_;
  std::vector<std::vector<int>> histories_;  // by variable: its choices so far
  std::vector<std::pair<int, int>> pairs_;   // (operator variable, tensor variable)
  std::vector<int> pair_of_;                 // by incidence, or kSameVariable
  TieWeights ties_;
};

}  // namespace

SearchResult SearchRecursive(const Graph& graph, const WorkerGrid& grid, const Hints& hints,
                             const SearchProgress& progress) {
  return SearchRecursive(SearchVariables(graph, grid, hints), progress);
}

SearchResult SearchRecursive(const SearchVariables& variables, const SearchProgress& progress) {
  return RecursiveSearch(variables).Run(progress);
}

}  // namespace tofu
