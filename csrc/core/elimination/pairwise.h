/*!
 * \file pairwise.h
 * \brief A sum of functions of one and two variables whose tables are shared: what the exact search
 * reduces until elimination can solve it.
 *
 * A network repeats its blocks, so most pairs of variables have the same table as some other pair.
 * Tables are held once; whatever is computed from a table (a submatrix, a dominance test) is
 * computed once as well.
 */
#ifndef TOFU_CORE_ELIMINATION_PAIRWISE_H_
#define TOFU_CORE_ELIMINATION_PAIRWISE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/elimination/eliminate.h"

namespace tofu {

/*! \brief Bytes, row-major. */
struct ByteMatrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<int64_t> entries;

  int64_t at(size_t row, size_t column) const { return entries[row * columns + column]; }
};

using SharedMatrix = std::shared_ptr<const ByteMatrix>;

/*! \brief Rows are values of `first`, columns those of `second`; equal tables are one object. */
struct PairTable {
  int first = 0;
  int second = 0;
  SharedMatrix bytes;
};

struct PairwiseProblem {
  std::vector<std::vector<Weight>> unary;  // by variable and value
  std::vector<PairTable> pairs;

  int size() const { return static_cast<int>(unary.size()); }
};

/*! \brief The values that stay, ascending, for each variable. */
using KeptValues = std::vector<std::vector<int>>;

/*! \brief The weight of one assignment (an index into each variable's values). */
Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values);

/*! \brief The problem over the kept values alone; equal submatrices stay shared. */
PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief Pairs that mention each variable, as positions in `problem.pairs`. */
std::vector<std::vector<int>> FindIncidentPairs(const PairwiseProblem& problem);

/*! \brief The entries of the distinct tables. */
size_t CountDistinctEntries(const PairwiseProblem& problem);

/*! \brief The graph of pairs that matter, each list ascending: a variable of one value connects
 * nothing. */
std::vector<std::vector<int>> FindNeighbours(const PairwiseProblem& problem);

/*! \brief What eliminating the problem exactly would take. */
struct EliminationEstimate {
  double largest_table = 0;  // entries
  double entries = 0;        // of all tables, each of 18 bytes
  double operations = 0;     // entries times values of the eliminated variable
  std::vector<int> order;
};

/*! \brief Follows the elimination order without any table. Sizes are floating point: they may be
 * beyond all integers. */
EliminationEstimate EstimateElimination(const PairwiseProblem& problem);

/*! \brief The same of what Restrict leaves. */
EliminationEstimate EstimateElimination(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief Eliminates exactly (eliminate.h), in the order of an estimate if one is given. */
EliminationResult EliminatePairwise(const PairwiseProblem& problem, size_t max_entries,
                                    std::vector<int> order = {});

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_PAIRWISE_H_
