/*!
 * \file program_builder.h
 * \brief Appends nodes to a program, in the order of execution.
 */
#ifndef TOFU_CORE_PROGRAM_PROGRAM_BUILDER_H_
#define TOFU_CORE_PROGRAM_PROGRAM_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/program/fetch_pieces.h"
#include "core/program/program.h"

namespace tofu {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int num_workers) { program_.num_workers = num_workers; }

  Entry AddVariable(int tensor, int worker, const Interval* shard, int rank);

  Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces);

  int AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
              const std::vector<Box>& outputs);

  void AddOutput(const Entry& entry) { program_.outputs.push_back(entry); }

  /*! \brief Mark an entry that is not a shard, but on its way to a shard or an operator. */
  void MarkTransit(const Entry& entry) { program_.transit.push_back(entry); }

  /*!
   * \brief Make the copies of one worker adjacent if there is no fetch between them, so that a
   * framework can run them at once.
   *
   * No worker reads other workers' entries between two fetches, so the lifetimes of buffers stay
   * the same. Phases are not mixed, because a framework may stop between them.
   */
  void GroupByWorker();

  /*! \brief Make all nodes without readers outputs, because a framework runs only nodes that
   * outputs need. */
  void KeepUnread();

  Program Take() { return std::move(program_); }

 private:
  int AddNode(ProgramNode node);
  void Reorder(const std::vector<size_t>& order);

  Program program_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PROGRAM_BUILDER_H_
