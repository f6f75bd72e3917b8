/*!
 * \file variables.h
 * \brief The variables of a search: one for each class of operators that share a choice, and one
 * for each class of tied tensors, which share a layout.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/cost/cost.h"
#include "core/cost/tables.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Value of a hint that leaves a round free. */
constexpr int kFree = -2;

/*! \brief Choices that the caller fixes: for an operator's or tensor's id, a value or kFree for
 * each round. */
struct Hints {
  std::unordered_map<int, std::vector<int>> operators;
  std::unordered_map<int, std::vector<int>> tensors;
};

/*! \brief Sequences of choices, each with one value per round. */
using SharedSequences = std::shared_ptr<const std::vector<std::vector<int>>>;

class SearchVariables {
 public:
  /*! \throws std::invalid_argument for hints that have the wrong length or unknown ids, or that
   * contradict each other */
  SearchVariables(const Graph& graph, const WorkerGrid& grid, const Hints& hints);

  /*! \brief The variables of the same graph, for another grid. Throws like the first constructor.
   */
  SearchVariables(const SearchVariables& known, const WorkerGrid& grid, const Hints& hints);

  const Graph& graph() const { return graph_; }
  const WorkerGrid& grid() const { return grid_; }
  const SharedIncidences& incidences() const { return incidences_; }
  int size() const { return static_cast<int>(subjects_.size()); }
  int OfOperator(int op) const { return of_operator_[op]; }
  int OfTensor(int tensor) const { return of_tensor_[tensor]; }
  bool IsTensor(int variable) const { return subjects_[variable].is_tensor; }

  /*! \brief Return the structural label of a class, which does not depend on ids and names. */
  uint64_t label(int variable) const { return labels_[variable]; }

  /*!
   * \brief Return the values of each variable in round `round`, given its choices in earlier
   * rounds.
   * \throws std::invalid_argument listing all hints that are not feasible
   */
  std::vector<std::vector<int>> Domains(int round,
                                        const std::vector<std::vector<int>>& histories) const;

  /*!
   * \brief Return all sequences of choices of each variable, in lexicographic order with replicated
   * last.
   * Variables with equal sequences share them.
   * \throws std::invalid_argument for a hint that no sequence meets
   */
  std::vector<SharedSequences> Sequences() const;

  /*! \brief Return one sequence of each class (class_cost.h) for each variable. Variables with
   * equal sequences share them. */
  std::vector<SharedSequences> Classes() const;

  /*! \brief Return the sequences in the class of `sequence`. `kinds` has the kind of each round
   * (NumberRounds). */
  std::vector<std::vector<int>> ListClass(int variable, const std::vector<int>& kinds,
                                          const std::vector<int>& sequence) const;

  /*! \brief Return the sequences that equal `sequence` in all rounds except two. */
  std::vector<std::vector<int>> ListVariants(int variable, const std::vector<int>& sequence,
                                             int first, int second) const;

  /*! \brief Return the choices of a plan, by variable. */
  std::vector<std::vector<int>> ChoicesOf(const Assignment& plan) const;

  /*! \brief Return a number for each variable, equal for variables with equal sequences. Does not
   * list the sequences. */
  std::vector<int> NumberSequences() const;

  /*! \brief Count the sequences of a variable without listing them. */
  double CountSequences(int variable) const;

  /*! \brief Return true if the variable can take this sequence of choices, whatever its hint. */
  bool IsSequence(int variable, const std::vector<int>& choices) const;

  /*! \brief Return "tensor 3" or "operator 5", for the first member of the class. */
  std::string Name(int variable) const { return NameOf(subjects_[variable]); }

  /*! \brief Return the assignment in which each operator and tensor has choices_of(its variable).
   */
  template <typename ChoicesOf>
  Assignment MakeAssignment(const ChoicesOf& choices_of) const {
    Assignment assignment;
    for (int variable : of_operator_) assignment.operators.push_back(choices_of(variable));
    for (int variable : of_tensor_) assignment.tensors.push_back(choices_of(variable));
    return assignment;
  }

 private:
  /*! \brief Return true if later choices can meet the variable's hint after `history`. */
  bool CanMeetHint(int variable, std::vector<int> history) const;
  /*! \brief Return the choices in the next round after which the variable's hint can still be met.
   */
  std::vector<int> LeaveHintPossible(int variable, std::vector<int> history,
                                     const std::vector<int>& choices) const;
  void AddHints(const Hints& hints);
  /*! \brief Find the hints that can be met only if free rounds before them replicate. */
  void FindHintsThatReplicate();
  void AddHint(const std::string& name, int variable, const std::vector<int>& hint, int num_rounds);
  std::vector<int> Choices(int variable, const std::vector<int>& history) const;
  /*! \brief Return the choices that can follow `history` and meet the hint of their round. */
  std::vector<int> NextChoices(int variable, const std::vector<int>& history) const;
  /*! \brief Append to each sequence all choices that can follow, if may_follow(sequence, choice).
   */
  template <typename MayFollow>
  std::vector<std::vector<int>> ExtendAll(int variable,
                                          const std::vector<std::vector<int>>& histories,
                                          const MayFollow& may_follow) const;
  std::vector<std::vector<int>> SequencesOf(int variable) const;

  /*! \brief Sequences with the same number of parts in each dimension. The same choices can follow
   * all of them. */
  struct Histories {
    std::vector<int> first;
    double count = 0;
  };
  /*! \brief Group the sequences of a variable by describe(sequence). */
  template <typename Describe>
  std::vector<Histories> GroupSequences(int variable, const Describe& describe) const;
  /*! \brief Return list(variable) for each variable, shared by variables with equal sequences. */
  template <typename List>
  std::vector<SharedSequences> ShareSequences(const List& list) const;

  const Graph& graph_;
  const WorkerGrid& grid_;
  SharedIncidences incidences_;
  std::vector<Subject> subjects_;
  std::vector<uint64_t> labels_;
  std::vector<int> of_operator_;
  std::vector<int> of_tensor_;
  std::vector<std::vector<int>> hints_;  // by variable; empty without a hint
  std::vector<std::string> hint_names_;  // for each variable, the operator or tensor of its hint
  std::vector<bool> hint_replicates_;    // for each variable, true if free rounds may replicate
};

}  // namespace tofu
