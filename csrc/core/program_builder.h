/*!
 * \file program_builder.h
 * \brief Appends nodes to a program and keeps each worker's order of execution.
 */
#ifndef TOFU_CORE_PROGRAM_BUILDER_H_
#define TOFU_CORE_PROGRAM_BUILDER_H_

#include <cstdint>
#include <vector>

#include "geometry.h"
#include "pieces.h"
#include "program.h"

namespace tofu {

/*! \brief The extents of a box: the shape of the array that holds it. */
std::vector<int64_t> ExtentsOf(const Interval* box, int rank);

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int num_workers);

  int num_workers() const { return static_cast<int>(last_copies_.size()); }

  Entry AddVariable(int tensor, int worker, std::vector<int64_t> shape);

  /*! \brief A fetch that runs after the worker's latest operator copy. */
  Entry AddFetch(int tensor, int worker, int phase, double fill, const FetchPieces& pieces);

  /*! \brief An operator copy that runs after the worker's copy before it and all of its fetches
   * that were kept ordered since. */
  int AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
              std::vector<std::vector<int64_t>> shapes);

  /*! \brief The worker's next copy waits for this entry if it is a fetch. */
  void KeepOrdered(const Entry& entry);

  void AddOutput(const Entry& entry) { program_.outputs.push_back(entry); }

  /*!
   * \brief Hands out what no node reads as well: the plan pays for every shard and every copy, and
   * a framework does not run what is not asked for.
   */
  void KeepUnread();

  Program Take();

 private:
  int AddNode(ProgramNode node);

  Program program_;
  std::vector<int64_t> last_copies_;                   // by worker, -1 before the first
  std::vector<std::vector<int64_t>> ordered_fetches_;  // by worker: its next copy waits for these
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_BUILDER_H_
