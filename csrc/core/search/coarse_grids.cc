/*!
 * \file coarse_grids.cc
 * \brief Joined rounds, and their plans on the grid that they were joined from.
 */
#include "core/search/coarse_grids.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/cost/class_cost.h"

namespace tofu {

namespace {

using ChoicesById = std::unordered_map<int, std::vector<int>>;

/*! \brief Append all ways to join the rounds from `begin` on. */
void ListFrom(const WorkerGrid& grid, int begin, int most_rounds, JoinedRounds* joined,
              std::vector<JoinedRounds>* all) {
  if (begin == grid.num_rounds()) {
    all->push_back(*joined);
    return;
  }
  if (most_rounds == 0) return;
  int end = begin;
  do ++end;
  while (end < grid.num_rounds() && !grid.BeginsLevel(end));
  for (; end > begin; --end) {
    joined->push_back(end - begin);
    ListFrom(grid, end, most_rounds - 1, joined, all);
    joined->pop_back();
  }
}

/*! \brief The factors of a coarse grid at each price, in ascending order. Plans on grids with equal
 * descriptions cost the same if all dimensions are divisible. */
std::vector<std::vector<int64_t>> DescribeGrid(const WorkerGrid& grid, const JoinedRounds& joined) {
  const WorkerGrid coarse = JoinRounds(grid, joined);
  std::vector<std::vector<int64_t>> factors;
  int begin = 0;
  for (size_t round = 0; round < joined.size(); begin += joined[round++]) {
    if (grid.BeginsLevel(begin)) factors.emplace_back();
    factors.back().push_back(coarse.factor(static_cast<int>(round)));
  }
  for (std::vector<int64_t>& of_level : factors) std::sort(of_level.begin(), of_level.end());
  return factors;
}

/*! \brief Return the choices with each value repeated for the rounds that were joined. */
std::vector<int> RepeatChoices(const std::vector<int>& choices, const JoinedRounds& joined) {
  std::vector<int> repeated;
  for (size_t round = 0; round < joined.size(); ++round)
    repeated.insert(repeated.end(), joined[round], choices[round]);
  return repeated;
}

bool Meets(const std::vector<int>& choices, const std::vector<int>& hint) {
  return std::equal(choices.begin(), choices.end(), hint.begin(), hint.end(),
                    [](int choice, int wanted) { return wanted == kFree || wanted == choice; });
}

/*! \brief Replace each hint by the common value of joined rounds. Return false if values differ. */
bool JoinChoices(const ChoicesById& hints, const JoinedRounds& joined, ChoicesById* coarse) {
  for (const auto& [id, choices] : hints) {
    std::vector<int>& of_rounds = (*coarse)[id];
    size_t begin = 0;
    for (const int count : joined) {
      int value = kFree;
      for (size_t round = begin; round < begin + count; ++round) {
        if (choices[round] == kFree) continue;
        if (value != kFree && value != choices[round]) return false;
        value = choices[round];
      }
      of_rounds.push_back(value);
      begin += count;
    }
  }
  return true;
}

}  // namespace

std::vector<JoinedRounds> ListCoarseGrids(const WorkerGrid& grid, int most_rounds) {
  std::vector<JoinedRounds> all;
  JoinedRounds joined;
  ListFrom(grid, 0, most_rounds, &joined, &all);
  std::set<std::vector<std::vector<int64_t>>> known;
  std::vector<JoinedRounds> distinct;
  for (JoinedRounds& way : all) {
    if (known.insert(DescribeGrid(grid, way)).second) distinct.push_back(std::move(way));
  }
  return distinct;
}

WorkerGrid JoinRounds(const WorkerGrid& grid, const JoinedRounds& joined) {
  std::vector<int64_t> factors;
  std::vector<double> prices;
  std::vector<double> latencies;
  int round = 0;
  for (const int count : joined) {
    if (grid.has_prices()) {
      prices.push_back(grid.price(round));
      latencies.push_back(grid.latency(round));
    }
    factors.push_back(1);
    for (int end = round + count; round < end; ++round) factors.back() *= grid.factor(round);
  }
  return WorkerGrid(std::move(factors), std::move(prices), std::move(latencies));
}

std::optional<Hints> JoinHints(const Hints& hints, const JoinedRounds& joined) {
  Hints coarse;
  if (!JoinChoices(hints.operators, joined, &coarse.operators) ||
      !JoinChoices(hints.tensors, joined, &coarse.tensors))
    return std::nullopt;
  return coarse;
}

SearchResult RefinePlan(const SearchVariables& variables, const Hints& hints,
                        const Assignment& coarse, const JoinedRounds& joined) {
  const Graph& graph = variables.graph();
  Hints fixed = hints;
  const auto fix = [&](int variable, int id, const std::vector<int>& choices, ChoicesById* by_id) {
    std::vector<int> repeated = RepeatChoices(choices, joined);
    if (!variables.IsSequence(variable, repeated)) return;
    const auto found = by_id->emplace(id, repeated);
    if (!found.second && Meets(repeated, found.first->second))
      found.first->second = std::move(repeated);
  };
  for (int id = 0; id < graph.num_operators(); ++id)
    fix(variables.OfOperator(id), id, coarse.operators[id], &fixed.operators);
  for (int id = 0; id < graph.num_tensors(); ++id)
    fix(variables.OfTensor(id), id, coarse.tensors[id], &fixed.tensors);
  return SearchRecursive(SearchVariables(variables, variables.grid(), fixed), {});
}

}  // namespace tofu
