/*!
 * \file eliminate.h
 * \brief Exact minimisation of a sum of functions of one and two variables, by bucket elimination
 * in a min-fill order.
 *
 * Eliminating a variable v with neighbours N leaves one table over N,
 *     table(n) = min over x of [unary(v = x) + sum of the functions of v at (n, x)],
 * and the best x for each n, which are read back in reverse order. Time and space are the sum over
 * v of the product of the domain sizes of v and N: exponential in the width of the order, linear in
 * the number of variables. Chains, fork-joins, residual connections and recurrent cells have small
 * width.
 */
#ifndef TOFU_CORE_ELIMINATION_ELIMINATE_H_
#define TOFU_CORE_ELIMINATION_ELIMINATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tofu {

/*! \brief (bytes, tie) in lexicographic order, as bytes * 2^64 + tie. Sums of ties must stay below
 * 2^64. */
using Weight = __int128;

inline Weight MakeWeight(int64_t bytes, uint64_t tie) {
  return static_cast<Weight>(bytes) * (Weight{1} << 64) + static_cast<Weight>(tie);
}
inline int64_t WeightBytes(Weight weight) { return static_cast<int64_t>(weight >> 64); }

/*! \brief Bytes, row-major. */
struct ByteMatrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<int64_t> entries;

  int64_t at(size_t row, size_t column) const { return entries[row * columns + column]; }
};

using SharedMatrix = std::shared_ptr<const ByteMatrix>;

/*! \brief Rows are values of `first`, columns those of `second`, another variable. */
struct PairTable {
  int first = 0;
  int second = 0;
  SharedMatrix bytes;
};

/*! \brief A sum of functions of one and two variables. Pairs may share tables. */
struct PairwiseProblem {
  std::vector<std::vector<Weight>> unary;  // by variable and value
  std::vector<PairTable> pairs;

  int size() const { return static_cast<int>(unary.size()); }
};

struct EliminationResult {
  std::vector<int> values;  // a value of each variable
  Weight weight = 0;
  size_t largest_table = 0;  // entries
  std::vector<int> order;    // in which variables were eliminated
};

/*! \brief A table with more entries is an error instead of running out of memory. */
constexpr size_t kMaxTableEntries = size_t{1} << 24;

/*!
 * \brief Return an order of small width: variables with at most two neighbours first, then by
 * fewest fill edges.
 *
 * `neighbours` are ascending adjacency lists. A variable with very many neighbours waits until most
 * of them are gone.
 */
std::vector<int> FindEliminationOrder(std::vector<std::vector<int>> neighbours);

/*! \brief The neighbours of each variable, ascending. */
std::vector<std::vector<int>> FindNeighbours(const PairwiseProblem& problem);

/*!
 * \brief Minimise a problem exactly.
 * \\param order of elimination; FindEliminationOrder chooses it if it is empty
 * \\throws std::runtime_error if a table would have more than `max_entries`
 */
EliminationResult Eliminate(const PairwiseProblem& problem, size_t max_entries = kMaxTableEntries,
                            std::vector<int> order = {});

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_ELIMINATE_H_
