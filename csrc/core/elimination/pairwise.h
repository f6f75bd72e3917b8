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
#include <map>
#include <utility>
#include <vector>

#include "core/elimination/eliminate.h"

namespace tofu {

/*! \brief The values that stay, ascending, for each variable. */
using KeptValues = std::vector<std::vector<int>>;

/*! \brief The weight of one assignment (an index into each variable's values). */
Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values);

/*! \brief The problem over the kept values alone; equal submatrices stay shared. */
PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief A problem over some of the values of a whole problem. */
struct Part {
  PairwiseProblem problem;
  KeptValues originals;  // by variable and value: the value of the whole problem, ascending
};

/*! \brief Return the numbers from 0 to count - 1. */
std::vector<int> CountUp(size_t count);

/*! \brief All values of all variables. */
KeptValues KeepAll(const PairwiseProblem& problem);

/*! \brief The number of kept values. */
size_t CountKept(const KeptValues& kept);

/*! \brief The part that is the whole problem. */
Part MakePart(PairwiseProblem problem);

/*! \brief The part of a part over its kept values alone. */
Part Select(const Part& part, const KeptValues& kept);

/*! \brief Values of the whole problem as values of a part that holds them. */
std::vector<int> FindPositions(const Part& part, const std::vector<int>& values);

/*! \brief The bytes of weights, without their ties. */
std::vector<int64_t> ListBytes(const std::vector<Weight>& weights);

/*! \brief Bytes as weights without ties. */
std::vector<Weight> ToWeights(const std::vector<int64_t>& bytes);

ByteMatrix Transpose(const ByteMatrix& matrix);

/*! \brief The distinct tables of a problem, in the order of its pairs. */
std::vector<const ByteMatrix*> ListTables(const PairwiseProblem& problem);

/*! \brief Makes equal tables one object. */
class DistinctMatrices {
 public:
  const SharedMatrix& Add(SharedMatrix matrix);

 private:
  std::map<std::pair<size_t, std::vector<int64_t>>, SharedMatrix> known_;  // by rows and entries
};

/*! \brief The entries of the distinct tables. */
size_t CountDistinctEntries(const PairwiseProblem& problem);

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
