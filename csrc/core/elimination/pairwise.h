/*!
 * \file pairwise.h
 * \brief Operations on pairwise problems whose tables are shared.
 *
 * A network repeats its blocks, so most pairs have the same table as another pair. Each table is
 * held once, and whatever depends on it (a submatrix, a dominance test) is computed once.
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

/*! \brief By variable: the values that are kept, ascending. */
using KeptValues = std::vector<std::vector<int>>;

/*! \brief The weight of an assignment, which has an index into each variable's values. */
Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values);

/*! \brief The problem over the kept values. Equal submatrices stay shared. */
PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief A problem over some values of a whole problem. */
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

/*! \brief The whole problem as a part. */
Part MakePart(PairwiseProblem problem);

/*! \brief Restrict a part to some of its values. */
Part Select(const Part& part, const KeptValues& kept);

/*! \brief Convert values of the whole problem to values of a part that holds them. */
std::vector<int> FindPositions(const Part& part, const std::vector<int>& values);

/*! \brief The bytes of weights, without their ties. */
std::vector<int64_t> ListBytes(const std::vector<Weight>& weights);

/*! \brief Bytes as weights without ties. */
std::vector<Weight> ToWeights(const std::vector<int64_t>& bytes);

ByteMatrix Transpose(const ByteMatrix& matrix);

/*! \brief List the distinct tables of a problem, in the order of its pairs. */
std::vector<const ByteMatrix*> ListTables(const PairwiseProblem& problem);

/*! \brief Makes equal tables one object. */
class DistinctMatrices {
 public:
  const SharedMatrix& Add(SharedMatrix matrix);

 private:
  std::map<std::pair<size_t, std::vector<int64_t>>, SharedMatrix> known_;  // by rows and entries
};

/*! \brief Entries of all distinct tables. */
size_t CountDistinctEntries(const PairwiseProblem& problem);

/*! \brief Effort of eliminating a problem exactly. */
struct EliminationEstimate {
  double largest_table = 0;  // entries
  double entries = 0;        // of all tables, 18 bytes each
  double operations = 0;     // entries times values of the eliminated variable
  std::vector<int> order;
};

/*! \brief Simulate elimination without tables. Sizes are floating point, since they may exceed all
 * integers. */
EliminationEstimate EstimateElimination(const PairwiseProblem& problem);

/*! \brief The same after Restrict. */
EliminationEstimate EstimateElimination(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief Eliminate exactly (eliminate.h), in the order of an estimate if it is not empty. */
EliminationResult EliminatePairwise(const PairwiseProblem& problem, size_t max_entries,
                                    std::vector<int> order = {});

}  // namespace tofu

#endif  // TOFU_CORE_ELIMINATION_PAIRWISE_H_
