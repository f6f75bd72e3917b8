/*!
 * \file eliminate.h
 * \brief Exact minimisation of a sum of functions of one and two variables, by bucket elimination
 * in a min-fill order.
 *
 * Eliminating a variable v with neighbours N replaces the functions of v by one table over N:
 *     table(n) = min over x of [unary(v = x) + sum of the functions of v at (n, x)]
 *
 * The best x for each n is stored, and read back in reverse order. Time and space are the sum over
 * v of the product of the domain sizes of v and N. They are linear in the number of variables and
 * exponential in the width of the order, the largest number of neighbours. Chains, fork-joins,
 * residual connections and recurrent cells have a small width.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tofu {

/*! \brief Bytes with a number that breaks ties, as bytes * 2^64 + tie. Sums of ties must stay below
 * 2^64. */
using Weight = __int128;

inline Weight MakeWeight(int64_t bytes, uint64_t tie) {
  return static_cast<Weight>(bytes) * (Weight{1} << 64) + static_cast<Weight>(tie);
}
inline int64_t WeightBytes(Weight weight) { return static_cast<int64_t>(weight >> 64); }

/*! \brief Row-major table of bytes. */
struct ByteMatrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<int64_t> entries;

  int64_t at(size_t row, size_t column) const { return entries[row * columns + column]; }
  const int64_t* row(size_t row) const { return entries.data() + row * columns; }
  int64_t* row(size_t row) { return entries.data() + row * columns; }
};

using SharedMatrix = std::shared_ptr<const ByteMatrix>;

/*! \brief A function of two variables. Rows are values of `first`, and columns values of `second`.
 */
struct PairTable {
  int first = 0;
  int second = 0;
  SharedMatrix bytes;

  Weight At(size_t row, size_t column) const { return MakeWeight(bytes->at(row, column), 0); }
};

/*! \brief A sum of functions of one and two variables. Pairs may share tables. */
struct PairwiseProblem {
  std::vector<std::vector<Weight>> unary;  // by variable and value
  std::vector<PairTable> pairs;

  int size() const { return static_cast<int>(unary.size()); }
};

struct EliminationResult {
  std::vector<int> values;  // the best value of each variable
  Weight weight = 0;
  size_t largest_table = 0;  // entries of the largest table
};

/*! \brief Limit of the entries of a table. Larger tables raise an error before memory runs out. */
constexpr size_t kMaxTableEntries = size_t{1} << 24;

/*!
 * \brief Return an order of small width. Variables with at most two neighbours come first, then the
 * variable with the fewest fill edges, and so on.
 *
 * `neighbours` are ascending adjacency lists. A variable with very many neighbours waits until most
 * of them are gone.
 */
std::vector<int> FindEliminationOrder(std::vector<std::vector<int>> neighbours);

/*! \brief Return the neighbours of each variable, ascending. */
std::vector<std::vector<int>> FindNeighbours(const PairwiseProblem& problem);

/*!
 * \brief Minimise a problem exactly.
 * \param order the order of elimination; if it is empty, FindEliminationOrder chooses one
 * \throws std::runtime_error if a table would have more than `max_entries`
 */
EliminationResult Eliminate(const PairwiseProblem& problem, size_t max_entries = kMaxTableEntries,
                            std::vector<int> order = {});

}  // namespace tofu
