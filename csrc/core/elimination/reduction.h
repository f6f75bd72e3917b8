/*!
 * \file reduction.h
 * \brief Elimination of all variables with at most two neighbours, or with one value.
 *
 * A step has many such variables: chains of element-wise operators, and updates of parameters. The
 * rest is solved by other means (dominance.h). Contract (contract.h) also removes such variables.
 * It shares large tables, but drops ties and finds no values.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/elimination/eliminate.h"

namespace tofu {

class Reduction {
 public:
  explicit Reduction(const PairwiseProblem& problem);

  /*! \brief Return the problem over the other variables, renumbered in ascending order. */
  PairwiseProblem MakeRest() const;

  /*! \brief Extend the best values of the rest to the best values of all variables. */
  EliminationResult Complete(const EliminationResult& rest) const;

 private:
  /*! \brief A table of two variables in `cells_`, row-major. Rows are values of `first`. */
  struct Table {
    int first;
    int second;
    size_t begin;
  };

  struct Link {
    int other;
    int table;
  };

  /*! \brief The best values of an eliminated variable in `best_`, by values of its neighbours. */
  struct Decision {
    int variable;
    int neighbours[2];
    int count;
    size_t begin;
  };

  int size() const { return static_cast<int>(unary_.size()); }
  size_t NumValues(int v) const { return unary_[v].size(); }
  const Link* FindLink(int from, int to) const;
  void RemoveLink(int from, int to);
  void Connect(int first, int second, size_t begin);
  std::vector<Weight> TurnTo(int v, const Table& table) const;
  void Remove(int v);
  void Minimise(int v, const std::vector<Link>& links);
  void AddToUnary(int v, size_t begin);

  std::vector<std::vector<Weight>> unary_;
  std::vector<std::vector<Link>> links_;  // by variable
  std::vector<Table> tables_;
  std::vector<Weight> cells_;  // of all tables
  std::vector<Decision> decisions_;
  std::vector<uint16_t> best_;
  std::vector<int> rest_;  // variables that are not eliminated
  Weight constant_ = 0;
};

}  // namespace tofu
