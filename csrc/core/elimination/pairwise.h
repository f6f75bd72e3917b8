/*!
 * \file pairwise.h
 * \brief Operations on pairwise problems whose tables are shared.
 *
 * A network repeats its blocks, so most pairs have the same table as another pair. Each table is
 * stored once, and results that depend on it (a submatrix, a dominance test) are computed once.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/elimination/eliminate.h"

namespace tofu {

/*! \brief The values of each variable that are kept, ascending. */
using KeptValues = std::vector<std::vector<int>>;

/*! \brief Return the weight of an assignment, which has the number of a value for each variable. */
Weight EvaluatePairwise(const PairwiseProblem& problem, const std::vector<int>& values);

/*! \brief Return the problem over the kept values. Equal submatrices stay shared. */
PairwiseProblem Restrict(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief A problem over some of the values of a whole problem. */
struct Part {
  PairwiseProblem problem;
  KeptValues originals;  // for each variable and value, the value of the whole problem; ascending
};

/*! \brief Return the numbers from 0 to count - 1. */
std::vector<int> CountUp(size_t count);

/*! \brief Return all values of all variables. */
KeptValues KeepAll(const PairwiseProblem& problem);

size_t CountKept(const KeptValues& kept);

/*! \brief Return the whole problem as a part. */
Part MakePart(PairwiseProblem problem);

/*! \brief Restrict a part to some of its values. */
Part Select(const Part& part, const KeptValues& kept);

/*! \brief Convert values of the whole problem to values of a part that holds them. */
std::vector<int> FindPositions(const Part& part, const std::vector<int>& values);

/*! \brief Return the bytes of weights, without their ties. */
std::vector<int64_t> ListBytes(const std::vector<Weight>& weights);

/*! \brief Return bytes as weights without ties. */
std::vector<Weight> ToWeights(const std::vector<int64_t>& bytes);

ByteMatrix Transpose(const ByteMatrix& matrix);

/*! \brief List the distinct tables of a problem, in the order of its pairs. */
std::vector<const ByteMatrix*> ListTables(const PairwiseProblem& problem);

/*! \brief Replaces equal tables by one object. */
class DistinctMatrices {
 public:
  const SharedMatrix& Add(SharedMatrix matrix);

 private:
  std::map<std::pair<size_t, std::vector<int64_t>>, SharedMatrix> known_;  // by rows and entries
};

/*! \brief Return the number of entries of all distinct tables. */
size_t CountDistinctEntries(const PairwiseProblem& problem);

/*! \brief Estimate of the effort of eliminating a problem exactly. */
struct EliminationEstimate {
  double largest_table = 0;  // entries of the largest table
  double entries = 0;        // entries of all tables, 18 bytes each
  double operations = 0;     // sum of entries times values of the eliminated variable
  std::vector<int> order;
};

/*! \brief Simulate elimination over the kept values, by table sizes alone. Variables with one value
 * connect nothing. Sizes are floating-point numbers, because they may exceed all integers. */
EliminationEstimate EstimateElimination(const PairwiseProblem& problem, const KeptValues& kept);

/*! \brief Eliminate exactly (eliminate.h), in `order` unless it is empty. */
EliminationResult EliminatePairwise(const PairwiseProblem& problem, size_t max_entries,
                                    std::vector<int> order = {});

}  // namespace tofu
