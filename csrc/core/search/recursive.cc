/*!
 * \file recursive.cc
 */
#include "core/search/recursive.h"

#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"
#include "core/elimination/dominance.h"
#include "core/search/exact_problem.h"

namespace tofu {

namespace {

using Sequences = std::vector<std::vector<int>>;

/*! \brief By variable: its history with each value of its domain appended. Equal lists are shared.
 */
std::vector<SharedSequences> ExtendHistories(const Sequences& histories, const Sequences& domains) {
  std::map<Sequences, SharedSequences> known;
  std::vector<SharedSequences> all;
  for (size_t v = 0; v < domains.size(); ++v) {
    Sequences sequences(domains[v].size(), histories[v]);
    for (size_t x = 0; x < sequences.size(); ++x) sequences[x].push_back(domains[v][x]);
    SharedSequences& shared = known[sequences];
    if (shared == nullptr) shared = std::make_shared<Sequences>(std::move(sequences));
    all.push_back(shared);
  }
  return all;
}

/*! \brief Raise an error for the first rounds of a plan, which cost at least kForbiddenBytes. */
[[noreturn]] void ReportForbidden(const SearchVariables& variables, const WorkerGrid& grid,
                                  const Sequences& choices) {
  const Graph& graph = variables.graph();
  for (const Incidence& incidence : variables.incidences()->incidences) {
    if (!IsInPlace(incidence)) continue;
    const auto access =
        PlaceAccess(graph, incidence, grid, choices[variables.OfOperator(incidence.op)]);
    const auto layout =
        PlaceLayout(graph, incidence.tensor, grid, choices[variables.OfTensor(incidence.tensor)]);
    if (IsHeld(access, layout.shards)) continue;
    Refuse("operator ", incidence.op, " writes tensor ", incidence.tensor,
           " in place, and no choice in round ", grid.num_rounds() - 1,
           " makes each worker's region exactly its shard; make the tensor "
           "replicable or free its operator");
  }
  throw std::overflow_error(kTooManyBytes);
}

}  // namespace

SearchResult SearchRecursive(const SearchVariables& variables, const SearchProgress& progress) {
  const WorkerGrid& grid = variables.grid();
  SearchResult result;
  Sequences histories(variables.size());
  int64_t total_bytes = 0;
  for (int round = 0; round < grid.num_rounds(); ++round) {
    const WorkerGrid first_rounds = grid.Prefix(round + 1);
    const Sequences domains = variables.Domains(round, histories);
    const EliminationResult best = EliminateInStages(
        BuildRounds(variables, first_rounds, ExtendHistories(histories, domains)));
    for (size_t v = 0; v < domains.size(); ++v) histories[v].push_back(domains[v][best.values[v]]);
    const int64_t bytes = WeightBytes(best.weight);
    if (bytes >= kForbiddenBytes) ReportForbidden(variables, first_rounds, histories);
    result.round_bytes.push_back(bytes - total_bytes);
    total_bytes = bytes;
    if (progress) progress(round + 1, total_bytes);
  }
  result.assignment = variables.MakeAssignment([&](int variable) { return histories[variable]; });
  // The rounds count each read separately, because the cost of shared regions is not a sum over
  // pairs.
  if (variables.graph().shares_regions())
    result.round_bytes = EvaluatePlan(variables.graph(), grid, result.assignment).round_bytes;
  return result;
}

}  // namespace tofu
