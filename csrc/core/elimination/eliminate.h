/*!
 * \file eliminate.h
 * \brief Exact minimisation of a sum of functions of one and two variables, by bucket elimination
 * in a min-fill order.
 *
 * Eliminating a variable v with neighbours N leaves one table over N:
 *     table(n) = min over x of [ unary(v = x) + sum of the factors that mention v, at (n, x) ]
 * and the best x for each n, to be read back in reverse order. Time and space are the sum over v of
 * the product of the domain sizes of v and N: exponential in the width of the order alone, linear
 * in the number of variables. Chains, fork-joins, residual connections and recurrent cells have
 * small width.
 */
#ifndef TOFU_CORE_ELIMINATION_ELIMINATE_H_
#define TOFU_CORE_ELIMINATION_ELIMINATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tofu {

/*! \brief (bytes, tie) compared lexicographically, as bytes * 2^64 + tie; sums of ties must stay
 * below 2^64. */
using Weight = __int128;

inline Weight MakeWeight(int64_t bytes, uint64_t tie) {
  return static_cast<Weight>(bytes) * (Weight{1} << 64) + static_cast<Weight>(tie);
}
inline int64_t WeightBytes(Weight weight) { return static_cast<int64_t>(weight >> 64); }

/*! \brief bytes[x * domain(second) + y] for first = x, second = y; first and second differ. */
struct PairFactor {
  int first = 0;
  int second = 0;
  std::vector<int64_t> bytes;
};

struct EliminationProblem {
  std::vector<std::vector<Weight>>
      unary;  // one weight per value; its length is the variable's domain size
  std::vector<PairFactor> pairs;
  std::vector<int> order = {};  // in which the variables go; found where it is empty
};

struct EliminationResult {
  std::vector<int> values;  // index into each variable's domain
  Weight weight = 0;
  size_t largest_table = 0;  // entries
  std::vector<int> order;    // in which the variables went
};

/*! \brief More entries than this in one table is an error, not an out-of-memory. */
constexpr size_t kMaxTableEntries = size_t{1} << 24;

/*!
 * \brief An order of small width: variables of at most two neighbours first, then by fewest fill
 * edges.
 *
 * `neighbours` are the adjacency lists, each ascending. A variable of very many neighbours waits
 * until most of them are gone.
 */
std::vector<int> FindEliminationOrder(std::vector<std::vector<int>> neighbours);

/*! \throws std::runtime_error where a table would pass `max_entries`. */
EliminationResult Eliminate(const EliminationProblem& problem,
                            size_t max_entries = kMaxTableEntries);

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_ELIMINATE_H_
