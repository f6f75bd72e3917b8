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

  /*! \brief The entry is no shard, but on its way to one or to an operator. */
  void MarkTransit(const Entry& entry) { program_.transit.push_back(entry); }

  /*!
   * \brief Where nothing is fetched between several operators of one phase, the copies of one
   * worker stand together: a framework may run them at once.
   *
   * Nobody reads another worker's entries in between, so the lifetimes of entries on each worker
   * stay as they are. Phases stay apart: a framework may stop between them.
   */
  void GroupByWorker();

  /*!
   * \brief Hands out what no node reads as well: the plan pays for every shard and every copy, and
   * a framework does not run what is not asked for.
   */
  void KeepUnread();

  Program Take() { return std::move(program_); }

 private:
  int AddNode(ProgramNode node);
  void Reorder(const std::vector<size_t>& order);

  Program program_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PROGRAM_BUILDER_H_
