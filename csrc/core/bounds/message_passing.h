/*!
 * \file message_passing.h
 * \brief A lower bound by sequential message passing (Kolmogorov, IEEE PAMI 28(10), 2006, and for
 * functions of any number of variables IEEE PAMI 37(5), 2015).
 *
 * A problem is a sum of functions of one variable, of pairs of variables (eliminate.h), and of
 * stars. Messages move bytes between the functions without changing the sum. For any messages, the
 * sum of the least costs of all functions and variables is a bound. Each variable in turn collects
 * the least costs of its functions for each of its values. It returns equal shares to the functions
 * that continue in the direction of the sweep. This raises the bound. Messages and shares are
 * integers, so rounding never makes the bound too high.
 *
 * The reduced cost of a value is its cost above these minima. A plan with the value costs at least
 * bound + reduced cost.
 *
 * A *star* is the cost of the regions of a tensor that several readers may share. Its centre is the
 * tensor's layout. Each reader's choice asks for a region, a *pattern*. Each distinct pattern is
 * paid for once, at a price that depends on the layout. Readers with the same pattern form a group.
 * The least cost of a star needs no table over all variables. It is enough to know the best pattern
 * for each subset of readers. This takes (values of the centre) times (patterns) times 2^(readers)
 * operations.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

struct Star {
  struct Reader {
    int variable;
    std::vector<int> patterns;  // the pattern that each value asks for
  };

  int centre = -1;
  std::vector<Reader> readers;
  std::vector<std::vector<int64_t>> bytes;  // by pattern and value of the centre
};

/*! \brief Return the cost of a star at an assignment. */
int64_t EvaluateStar(const Star& star, const std::vector<int>& values);

/*! \brief Return the star over the kept values. Patterns keep their numbers. */
Star RestrictStar(const Star& star, const KeptValues& kept);

/*! \brief Costs of a star above its least cost, after messages. The cost is the sum of the bytes of
 * the fetched patterns, of `centre` at the centre's value, and of `readers` at each pattern. */
struct StarExcess {
  std::vector<int64_t> centre;  // by value; the least cost is subtracted
  std::vector<std::vector<int64_t>>
      readers;  // by reader and pattern; kNobodyAsks if no value has the pattern
};
constexpr int64_t kNobodyAsks = int64_t{1} << 56;  // sums of dozens do not overflow

struct StarBuffers;

class MessagePassing {
 public:
  /*! \brief Start without messages. Sweeps go along `order`, which lists all variables, and back.
   * Keeps a reference to `problem`. A star with many readers is replaced by smaller stars. Together
   * they cost at most as much. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
                 const std::vector<int>& order);

  /*! \brief Continue with the messages of a larger problem, of which the `kept` values remain. */
  MessagePassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
                 const std::vector<int>& order, const MessagePassing& larger,
                 const KeptValues& kept);

  /*! \brief Sweep forward and back. */
  void Sweep();

  /*! \brief Replace the messages of pairs with equal tables and alike variables by their mean.
   * Results that depend on such pairs are then equal, and are computed once. `alike` is the result
   * of FindAlike. */
  void Average(const std::vector<int>& alike);

  /*! \brief Return the bound of a problem without stars, and in `spread` the problem with its costs
   * moved by the messages and reduced by the bound. No entry is negative. */
  int64_t Spread(PairwiseProblem* spread) const;

  /*! \brief Return a good assignment for a problem without stars. Each variable in turn takes the
   * best value, given the values of earlier variables. Then single variables are improved. */
  std::vector<int> RoundGreedily() const;

  /*! \brief Return the bound. `reduced` receives the cost of each value above it, by variable and
   * value. */
  int64_t ComputeBound(std::vector<std::vector<int64_t>>* reduced) const;

  /*! \brief Return, for each star, its cost above the bound if all other functions have their least
   * costs. */
  std::vector<StarExcess> FindExcess() const;

  /*! \brief Return the number of operations of a sweep. */
  double CountSteps() const;

 private:
  struct Function {
    std::vector<int> variables;        // a star's centre comes first
    const ByteMatrix* pair = nullptr;  // null for a star
    Star star = {};
    int number = -1;  // number of the star; -1 for pairs
    size_t part = 0;  // the star has the readers part, part + parts, ... of that star
    size_t parts = 1;
    std::vector<std::vector<int64_t>> moved = {};  // bytes moved here, by position in `variables`
    int settled =
        -1;  // position of the variable that last collected all costs, if none were moved since
  };
  struct Place {
    int function;
    int position;
    bool goes_on;    // the function has later variables
    bool goes_back;  // the function has earlier variables
  };

  void AddStar(const Star& star, int number);
  /*! \brief Return the least cost of a function by value of the variable at `position`. The
   * result is valid until the next call. */
  const std::vector<int64_t>& FindLeast(const Function& function, int position) const;
  void Visit(int variable, bool forward);
  /*! \brief Return the costs of a variable's values, given the values of others; -1 if unknown. */
  std::vector<int64_t> FindCosts(int variable, const std::vector<int>& values) const;

  size_t num_stars_;
  std::vector<Function> functions_;
  std::vector<std::vector<Place>> around_;  // functions by variable
  std::vector<std::vector<int64_t>> own_;   // by variable and value: bytes that no function holds
  std::vector<int> order_;
  std::shared_ptr<StarBuffers> buffers_;  // memory for FindLeast
};

}  // namespace tofu
