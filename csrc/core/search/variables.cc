/*!
 * \file variables.cc
 */
#include "core/search/variables.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/numbering.h"
#include "core/base/text.h"
#include "core/cost/class_cost.h"
#include "core/graph/canonical.h"

namespace tofu {

SearchVariables::SearchVariables(const Graph& graph, const WorkerGrid& grid, const Hints& hints)
    : graph_(graph), grid_(grid), incidences_(std::make_shared<NumberedIncidences>(graph)) {
  const CanonicalLabels labels = ComputeLabels(graph);
  std::vector<int> of_root(std::max(graph.num_tensors(), graph.num_operators()), -1);
  for (int id = 0; id < graph.num_tensors(); ++id) {
    int& variable = of_root[graph.TensorClass(id)];
    if (variable < 0) {
      variable = size();
      subjects_.push_back({true, id});
      labels_.push_back(0);
    }
    of_tensor_.push_back(variable);
    labels_[variable] += HashCombine(3, labels.tensors[id]);
  }
  of_root.assign(of_root.size(), -1);
  for (int id = 0; id < graph.num_operators(); ++id) {
    const int root = graph.ChoiceRoot(id);
    const int followed = graph.op(root).follows_tensor;
    int& variable = of_root[root];
    if (variable < 0 && followed >= 0) variable = of_tensor_[followed];
    if (variable < 0) {
      variable = size();
      subjects_.push_back({false, id});
      labels_.push_back(0);
    }
    of_operator_.push_back(variable);
    labels_[variable] += HashCombine(4, labels.operators[id]);
  }
  AddHints(hints);
}

SearchVariables::SearchVariables(const SearchVariables& known, const WorkerGrid& grid,
                                 const Hints& hints)
    : graph_(known.graph_),
      grid_(grid),
      incidences_(known.incidences_),
      subjects_(known.subjects_),
      labels_(known.labels_),
      of_operator_(known.of_operator_),
      of_tensor_(known.of_tensor_) {
  AddHints(hints);
}

void SearchVariables::AddHints(const Hints& hints) {
  hints_.resize(subjects_.size());
  hint_names_.resize(subjects_.size());
  for (const auto& [id, hint] : hints.tensors) {
    AddHint("tensor " + std::to_string(id), of_tensor_[graph_.CheckTensor(id)], hint,
            grid_.num_rounds());
  }
  for (const auto& [id, hint] : hints.operators) {
    AddHint("operator " + std::to_string(id), of_operator_[graph_.CheckOperator(id)], hint,
            grid_.num_rounds());
  }
  FindHintsThatReplicate();
}

void SearchVariables::FindHintsThatReplicate() {
  hint_replicates_.assign(subjects_.size(), false);
  for (int variable = 0; variable < size(); ++variable) {
    if (hints_[variable].empty() || CanMeetHint(variable, {})) continue;
    hint_replicates_[variable] = true;
    hint_replicates_[variable] = CanMeetHint(variable, {});
  }
}

void SearchVariables::AddHint(const std::string& name, int variable, const std::vector<int>& hint,
                              int num_rounds) {
  if (static_cast<int>(hint.size()) != num_rounds) {
    Refuse(name, " is fixed to ", hint.size(), " choices: one for each of ", num_rounds,
           " rounds is needed (-2 leaves a round free)");
  }
  std::vector<int>& known = hints_[variable];
  if (known.empty()) {
    known = hint;
    hint_names_[variable] = name;
    return;
  }
  for (int round = 0; round < num_rounds; ++round) {
    if (hint[round] == kFree) continue;
    if (known[round] != kFree && known[round] != hint[round]) {
      Refuse(name, " is fixed to ", hint[round], " in round ", round, " and ",
             hint_names_[variable], " to ", known[round], ", but they share one choice");
    }
    known[round] = hint[round];
  }
}

std::vector<int> SearchVariables::Choices(int variable, const std::vector<int>& history) const {
  std::vector<int> choices = ListChoices(graph_, grid_, subjects_[variable], history);
  if (hint_replicates_[variable] && choices.back() != kReplicated) choices.push_back(kReplicated);
  return choices;
}

bool SearchVariables::CanMeetHint(int variable, std::vector<int> history) const {
  const std::vector<int>& hint = hints_[variable];
  const size_t round = history.size();
  if (round == hint.size()) return true;
  // A round that splits nothing does not limit the choices of later rounds.
  const bool is_replicated =
      hint[round] == kReplicated || (hint[round] == kFree && hint_replicates_[variable]);
  std::vector<int> choices = {kReplicated};
  if (!is_replicated) choices = Choices(variable, history);
  history.push_back(0);
  return std::any_of(choices.begin(), choices.end(), [&](int choice) {
    history.back() = choice;
    return (hint[round] == kFree || hint[round] == choice) && CanMeetHint(variable, history);
  });
}

std::vector<int> SearchVariables::LeaveHintPossible(int variable, std::vector<int> history,
                                                    const std::vector<int>& choices) const {
  std::vector<int> meeting;
  for (int choice : choices) {
    history.push_back(choice);
    if (CanMeetHint(variable, history)) meeting.push_back(choice);
    history.pop_back();
  }
  return meeting;
}

std::vector<int> SearchVariables::NextChoices(int variable, const std::vector<int>& history) const {
  if (hints_[variable].empty()) return Choices(variable, history);
  const int hint = hints_[variable][history.size()];
  if (hint == kReplicated) return {hint};
  std::vector<int> choices = Choices(variable, history);
  const auto misses = [hint](int choice) { return hint != kFree && hint != choice; };
  choices.erase(std::remove_if(choices.begin(), choices.end(), misses), choices.end());
  return choices;
}

template <typename MayFollow>
std::vector<std::vector<int>> SearchVariables::ExtendAll(
    int variable, const std::vector<std::vector<int>>& histories,
    const MayFollow& may_follow) const {
  std::vector<std::vector<int>> longer;
  for (const std::vector<int>& history : histories) {
    for (int choice : NextChoices(variable, history)) {
      if (!may_follow(history, choice)) continue;
      longer.push_back(history);
      longer.back().push_back(choice);
    }
  }
  return longer;
}

std::vector<std::vector<int>> SearchVariables::SequencesOf(int variable) const {
  std::vector<std::vector<int>> sequences = {{}};
  for (int round = 0; round < grid_.num_rounds(); ++round) {
    sequences = ExtendAll(variable, sequences, [](const std::vector<int>&, int) { return true; });
    if (sequences.empty()) {
      Refuse(hint_names_[variable], " is fixed to ", hints_[variable][round], " in round ", round,
             " in ", grid_.factor(round), " parts, which no choice of the rounds before it allows");
    }
  }
  return sequences;
}

template <typename List>
std::vector<SharedSequences> SearchVariables::ShareSequences(const List& list) const {
  std::vector<SharedSequences> all;
  std::vector<SharedSequences> known;
  for (int number : NumberSequences()) {
    if (number == static_cast<int>(known.size())) {
      known.push_back(
          std::make_shared<std::vector<std::vector<int>>>(list(static_cast<int>(all.size()))));
    }
    all.push_back(known[number]);
  }
  return all;
}

std::vector<SharedSequences> SearchVariables::Sequences() const {
  return ShareSequences([this](int variable) { return SequencesOf(variable); });
}

std::vector<SharedSequences> SearchVariables::Classes() const {
  const std::vector<int> kinds = NumberRounds(grid_);
  return ShareSequences([&](int variable) {
    std::vector<std::vector<int>> classes;
    const auto describe = [&](const std::vector<int>& sequence) {
      return DescribeClass(kinds, sequence);
    };
    for (Histories& histories : GroupSequences(variable, describe))
      classes.push_back(std::move(histories.first));
    return classes;
  });
}

std::vector<int> SearchVariables::NumberSequences() const {
  Numbering numbering;
  std::vector<int> numbers;
  for (int variable = 0; variable < size(); ++variable) {
    const Subject subject = subjects_[variable];
    const std::vector<int64_t>& extents = ExtentsOf(graph_, subject);
    const SplitRules rules = RulesOf(graph_, subject);
    std::vector<int64_t> key = {subject.is_tensor, MayReplicate(graph_, subject)};
    key.insert(key.end(), extents.begin(), extents.end());
    key.push_back(-1);
    key.insert(key.end(), rules.uneven.begin(), rules.uneven.end());
    key.push_back(-1);
    for (const auto& [inner, outer] : rules.nestings) key.insert(key.end(), {inner, outer});
    key.push_back(-1);
    key.insert(key.end(), hints_[variable].begin(), hints_[variable].end());
    numbers.push_back(numbering.Of(key));
  }
  return numbers;
}

template <typename Describe>
std::vector<SearchVariables::Histories> SearchVariables::GroupSequences(
    int variable, const Describe& describe) const {
  std::vector<Histories> groups = {{{}, 1}};
  for (int round = 0; round < grid_.num_rounds(); ++round) {
    std::map<decltype(describe(std::vector<int>())), Histories> longer;
    for (const Histories& group : groups) {
      for (int choice : NextChoices(variable, group.first)) {
        std::vector<int> sequence = group.first;
        sequence.push_back(choice);
        Histories& found = longer[describe(sequence)];
        if (found.count == 0) found.first = std::move(sequence);
        found.count += group.count;
      }
    }
    groups.clear();
    for (auto& item : longer) groups.push_back(std::move(item.second));
  }
  return groups;
}

double SearchVariables::CountSequences(int variable) const {
  const size_t dimensions = ExtentsOf(graph_, subjects_[variable]).size();
  const auto count_parts = [&](const std::vector<int>& sequence) {
    std::vector<int64_t> parts(dimensions, 1);
    for (size_t round = 0; round < sequence.size(); ++round) {
      if (sequence[round] != kReplicated)
        parts[sequence[round]] *= grid_.factor(static_cast<int>(round));
    }
    return parts;
  };
  double count = 0;
  for (const Histories& histories : GroupSequences(variable, count_parts)) count += histories.count;
  return count;
}

std::vector<std::vector<int>> SearchVariables::ListClass(int variable,
                                                         const std::vector<int>& kinds,
                                                         const std::vector<int>& sequence) const {
  // Count the first rounds of a sequence that are of one kind and take one choice.
  const auto count = [&](const std::vector<int>& choices, size_t rounds, int kind, int choice) {
    int found = 0;
    for (size_t round = 0; round < rounds; ++round)
      found += kinds[round] == kind && choices[round] == choice;
    return found;
  };
  const auto has_room = [&](const std::vector<int>& history, int choice) {
    const int kind = kinds[history.size()];
    return count(history, history.size(), kind, choice) <
           count(sequence, sequence.size(), kind, choice);
  };
  std::vector<std::vector<int>> members = {{}};
  for (int round = 0; round < grid_.num_rounds(); ++round)
    members = ExtendAll(variable, members, has_room);
  return members;
}

std::vector<std::vector<int>> SearchVariables::ListVariants(int variable,
                                                            const std::vector<int>& sequence,
                                                            int first, int second) const {
  const auto is_free = [&](const std::vector<int>& history, int choice) {
    const int round = static_cast<int>(history.size());
    return round == first || round == second || choice == sequence[round];
  };
  std::vector<std::vector<int>> variants = {{}};
  for (int round = 0; round < grid_.num_rounds(); ++round)
    variants = ExtendAll(variable, variants, is_free);
  return variants;
}

std::vector<std::vector<int>> SearchVariables::ChoicesOf(const Assignment& plan) const {
  std::vector<std::vector<int>> choices(subjects_.size());
  for (size_t variable = 0; variable < choices.size(); ++variable) {
    const Subject& subject = subjects_[variable];
    choices[variable] = subject.is_tensor ? plan.tensors[subject.id] : plan.operators[subject.id];
  }
  return choices;
}

bool SearchVariables::IsSequence(int variable, const std::vector<int>& choices) const {
  std::vector<int> history;
  for (int choice : choices) {
    const std::vector<int> possible = Choices(variable, history);
    if (std::find(possible.begin(), possible.end(), choice) == possible.end()) return false;
    history.push_back(choice);
  }
  return true;
}

std::vector<std::vector<int>> SearchVariables::Domains(
    int round, const std::vector<std::vector<int>>& histories) const {
  std::vector<std::vector<int>> domains;
  std::string problems;
  for (int variable = 0; variable < size(); ++variable) {
    std::vector<int> choices = Choices(variable, histories[variable]);
    const int hint = hints_[variable].empty() ? kFree : hints_[variable][round];
    if (hint != kFree) {
      // A hint may always replicate, even if the search would not choose it.
      if (hint != kReplicated && std::find(choices.begin(), choices.end(), hint) == choices.end()) {
        problems += "\n  " + hint_names_[variable] + " is fixed to " + std::to_string(hint) +
                    " in round " + std::to_string(round) + ", where it can take one of " +
                    FormatList({choices.begin(), choices.end()});
      }
      choices = {hint};
    } else if (!hints_[variable].empty()) {
      // If no choice leaves later hints possible, the error is raised in the round of the hint.
      const std::vector<int> meeting = LeaveHintPossible(variable, histories[variable], choices);
      if (!meeting.empty()) choices = meeting;
    }
    domains.push_back(std::move(choices));
  }
  if (!problems.empty()) {
    Refuse("hints that cannot be met in ", grid_.factor(round),
           " parts (a dimension can be split while its smallest part has that extent):", problems);
  }
  return domains;
}

}  // namespace tofu
