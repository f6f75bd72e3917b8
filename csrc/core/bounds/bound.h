/*!
 * \file bound.h
 * \brief A lower bound on a pairwise problem by message passing.
 *
 * Sequential tree-reweighted message passing (Kolmogorov, IEEE PAMI 28(10), 2006): messages move
 * bytes between the functions of a sum without changing the sum. For any messages M,
 *     sum over v of min over x of [rest_v(x)]
 *       + sum over pairs of min over (x, y) of [pair(x, y) - messages out of the pair + share_v(x)]
 * is no more than the least sum, where unary_v + messages into v is cut into equal shares, one for
 * each pair of v with an earlier variable, and a rest. The sweeps raise it. Messages and shares are
 * integers: the bound is exact whatever they are. What is left of a value above the minima is its
 * reduced cost: no plan with the value costs less than bound + reduced cost.
 */
#ifndef TOFU_CORE_BOUNDS_BOUND_H_
#define TOFU_CORE_BOUNDS_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*!
 * \brief A number for each variable, the same for variables that are alike as far as `radius`.
 *
 * Alike: the costs of their values are equal, and they are connected by equal tables to variables
 * that are alike as far as `radius` - 1. Takes time proportional to the pairs, for each step of the
 * radius, and to the entries of the distinct tables.
 */
std::vector<int> FindAlike(const PairwiseProblem& problem, int radius);

class MessagePassing {
 public:
  /*! \brief Sweeps go along `order`, all variables, and back. The problem must outlive this. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order);

  /*! \brief Carries on with the messages of a larger problem, of which `kept` values are left. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<int>& order,
                 const MessagePassing& larger, const KeptValues& kept);

  /*! \brief One sweep forward and one back. */
  void Sweep();

  /*! \brief Pairs of one table whose variables are alike get the same messages, the mean of theirs:
   * what is computed from what the messages spread can be shared between them. `alike` is equal for
   * variables that are alike (FindAlike). */
  void Average(const std::vector<int>& alike);

  /*! \brief Bytes that no assignment goes below. Fills in `reduced`, by variable and value. */
  int64_t ComputeBound(std::vector<std::vector<int64_t>>* reduced) const;

  /*! \brief The bound, and the problem as the messages have spread its costs: every assignment
   * costs the bound more than in `spread`, where no value and no pair costs less than 0. */
  int64_t Spread(PairwiseProblem* spread) const;

  /*! \brief An assignment by the messages: each variable in turn takes what suits those before it,
   * then all are improved one at a time. */
  std::vector<int> RoundGreedily() const;

 private:
  struct Edge {
    int other;      // the variable at the other end
    int pair;       // position in problem.pairs
    bool is_first;  // whether this end is the pair's first
  };

  std::vector<int64_t>& Message(int pair, bool into_first) {
    return into_first ? into_first_[pair] : into_second_[pair];
  }
  const std::vector<int64_t>& Message(int pair, bool into_first) const {
    return into_first ? into_first_[pair] : into_second_[pair];
  }
  std::vector<int64_t> CollectMessages(int variable) const;
  std::vector<int64_t> ComputeShare(int variable, std::vector<int64_t> sum) const;
  /*! \brief By variable: what it keeps after it gave each pair with an earlier one its share. */
  std::vector<std::vector<int64_t>> ComputeRemainders(
      std::vector<std::vector<int64_t>>* shares) const;
  /*! \brief What is left of a pair, with the share of its later variable. */
  ByteMatrix ComputeRest(size_t pair, const std::vector<std::vector<int64_t>>& shares) const;
  void SendMessage(const Edge& edge, const std::vector<int64_t>& share);
  void Visit(int variable, bool forward);
  void ImproveOneByOne(std::vector<int>* values) const;

  const PairwiseProblem& problem_;
  std::vector<int> order_;
  std::vector<int> places_;  // by variable, in the order
  std::vector<std::vector<Edge>> edges_;
  std::vector<double> weights_;  // by variable: 1 / the number of chains through it
  std::vector<std::vector<int64_t>> unary_bytes_;
  std::vector<std::vector<int64_t>> into_first_;  // by pair: message into its first variable
  std::vector<std::vector<int64_t>> into_second_;
};

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_BOUND_H_
