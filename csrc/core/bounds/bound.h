/*!
 * \file bound.h
 * \brief A lower bound on a pairwise problem by sequential tree-reweighted message passing
 * (Kolmogorov, IEEE PAMI 28(10), 2006).
 *
 * A pairwise problem (eliminate.h) is a sum of functions. Messages move bytes between the functions
 * without changing the sum. unary_v plus the messages into v is divided into a rest and shares: one
 * equal share for each pair of v with an earlier variable. For any messages, the least sum is at
 * least
 *     sum over v of min over x of [rest_v(x)]
 *   + sum over pairs of min over (x, y) of [pair(x, y) - messages out of the pair + share_v(x)]
 *
 * Sweeps over all variables raise this bound. Messages and shares are integers, so rounding never
 * makes the bound too high.
 *
 * The reduced cost of a value is its cost above these minima. A plan with the value costs at least
 * bound + reduced cost.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*!
 * \brief Return a number for each variable. Variables that are alike within `radius` have equal
 * numbers.
 *
 * Variables are alike if their values cost the same and if equal tables connect them to variables
 * that are alike within `radius` - 1. The time is linear in radius times pairs, and in the entries
 * of distinct tables.
 */
std::vector<int> FindAlike(const PairwiseProblem& problem, int radius);

class MessagePassing {
 public:
  /*! \brief Start with zero messages. Sweeps go along `order`, which lists all variables, and back.
   * Keeps a reference to `problem`. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order);

  /*! \brief Continue with the messages of a larger problem, of which the `kept` values remain. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order,
                 const MessagePassing& larger, const KeptValues& kept);

  /*! \brief Sweep forward and back. */
  void Sweep();

  /*! \brief Replace the messages of pairs with equal tables and alike variables by their mean.
   * Results that depend on such pairs are then equal, and are computed once. `alike` is the result
   * of FindAlike. */
  void Average(const std::vector<int>& alike);

  /*! \brief Return the bound. `reduced` receives the reduced costs, by variable and value. */
  int64_t ComputeBound(std::vector<std::vector<int64_t>>* reduced) const;

  /*! \brief Return the bound, and in `spread` the problem with its costs moved by the messages and
   * reduced by the bound. No entry is negative. */
  int64_t Spread(PairwiseProblem* spread) const;

  /*! \brief Return a good assignment. Each variable in turn takes the best value, given the values
   * of earlier variables. Then single variables are improved. */
  std::vector<int> RoundGreedily() const;

 private:
  struct Edge {
    int other;      // the neighbour
    int pair;       // position in problem.pairs
    bool is_first;  // true if the variable is the pair's first
  };

  std::vector<int64_t>& Message(int pair, bool into_first) {
    return into_first ? into_first_[pair] : into_second_[pair];
  }
  const std::vector<int64_t>& Message(int pair, bool into_first) const {
    return into_first ? into_first_[pair] : into_second_[pair];
  }
  std::vector<int64_t> CollectMessages(int variable) const;
  std::vector<int64_t> ComputeShare(int variable, std::vector<int64_t> sum) const;
  /*! \brief Return the rest of each variable's costs, after its shares. */
  std::vector<std::vector<int64_t>> ComputeRemainders(
      std::vector<std::vector<int64_t>>* shares) const;
  /*! \brief Return the costs of a pair minus its messages, plus the share of its later variable. */
  ByteMatrix ComputeRest(size_t pair, const std::vector<std::vector<int64_t>>& shares) const;
  void SendMessage(const Edge& edge, const std::vector<int64_t>& share);
  void Visit(int variable, bool forward);
  void ImproveOneByOne(std::vector<int>* values) const;

  const PairwiseProblem& problem_;
  std::vector<int> order_;
  std::vector<int> places_;  // by variable: position in order_
  std::vector<std::vector<Edge>> edges_;
  std::vector<double> weights_;  // by variable: 1 / number of chains through it
  std::vector<std::vector<int64_t>> unary_bytes_;
  std::vector<std::vector<int64_t>> into_first_;  // by pair: message into its first variable
  std::vector<std::vector<int64_t>> into_second_;
};

}  // namespace tofu
