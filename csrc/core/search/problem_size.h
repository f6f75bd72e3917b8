/*!
 * \file problem_size.h
 * \brief Time and memory of a problem, checked before anything is allocated.
 */
#pragma once

#include <cstddef>
#include <vector>

#include "core/cost/tables.h"
#include "core/graph/graph.h"
#include "core/search/variables.h"

namespace tofu {

/*! \brief Limit of the entries of all distinct tables. */
constexpr size_t kMaxExactEntries = size_t{1} << 26;

/*! \brief Limits of a problem. */
struct ExactSize {
  size_t max_entries = kMaxExactEntries;  // entries of all distinct tables
  double max_bytes = 0;                   // bytes of all memory
};

class ProblemSize {
 public:
  ProblemSize(const Graph& graph, const WorkerGrid& grid, const ExactSize& limits)
      : graph_(graph), grid_(grid), limits_(limits) {}

  /*! \brief Count bytes that the problem is about to take. Throw std::length_error if they are too
   * many. */
  void Hold(double bytes);

  /*!
   * \brief Count the memory of all tables and sequences.
   *
   * `list_of` has the list of sequences of each variable, and `counts` the sequences of each list.
   * If `leaves_out` is true, the largest tables are left out if there are too many entries.
   * \throws std::length_error for a problem that is too large
   */
  void Check(const CostTables& tables, const SearchVariables& variables,
             const std::vector<int>& list_of, const std::vector<double>& counts, bool leaves_out);

  double held_bytes() const { return held_bytes_; }
  /*! \brief Larger tables are left out. */
  double max_table_entries() const { return max_table_entries_; }
  /*! \brief Bytes of a box of the tensor for each worker. */
  double BytesOfBoxes(int tensor) const;

 private:
  double BytesOfSequence() const;
  double BytesOfLayout(int tensor) const;

  const Graph& graph_;
  const WorkerGrid& grid_;
  ExactSize limits_;
  double held_bytes_ = 0;
  double max_table_entries_ = 0;
};

}  // namespace tofu
