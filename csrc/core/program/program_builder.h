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

ProgramNode MakeVariable(int tensor, int worker, const Interval* shard, int rank);
ProgramNode MakeFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces);
ProgramNode MakeCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                     const std::vector<Box>& outputs);

/*! \brief Receives the nodes of a program, in the order of execution. */
class NodeSink {
 public:
  virtual ~NodeSink() = default;

  virtual Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) = 0;

  virtual Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) = 0;

  virtual Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                        const std::vector<Box>& outputs) = 0;

  virtual void AddOutput(const Entry& entry) = 0;

  /*! \brief Mark an entry that is not a shard, but on its way to a shard or an operator. */
  virtual void MarkTransit(const Entry& entry) = 0;

  /*! \brief Return true if fetches need their pieces, and not only the entries that they read. */
  virtual bool HasPieces() const = 0;

  /*! \brief Return true if it matters that a worker reads an entry of `owner`. */
  virtual bool IsFollowed(int worker, int owner) const = 0;

  /*! \brief Return true if it matters that an entry is read again. */
  virtual bool IsFollowed(const Entry& entry) const = 0;

  /*!
   * \brief Make all nodes without readers outputs, because a framework runs only nodes that
   * outputs need. `used` has an output of each operator that is read on some worker.
   *
   * Some kernels of MXNet cannot compute other outputs, such as gradients of indices.
   */
  virtual void KeepUnread(const std::vector<int>& used) = 0;
};

/*! \brief Writes the program of all workers. */
class ProgramBuilder : public NodeSink {
 public:
  explicit ProgramBuilder(int num_workers) { program_.num_workers = num_workers; }

  Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) override;
  Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) override;
  Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                const std::vector<Box>& outputs) override;
  void AddOutput(const Entry& entry) override { program_.outputs.push_back(entry); }
  void MarkTransit(const Entry& entry) override { program_.transit.push_back(entry); }
  bool HasPieces() const override { return true; }
  bool IsFollowed(int, int) const override { return true; }
  bool IsFollowed(const Entry&) const override { return true; }
  void KeepUnread(const std::vector<int>& used) override;

  /*!
   * \brief Make the copies of one worker adjacent if there is no fetch between them, so that a
   * framework can run them at once.
   *
   * No worker reads other workers' entries between two fetches, so the lifetimes of buffers stay
   * the same. Phases are not mixed, because a framework may stop between them.
   */
  void GroupByWorker();

  Program Take() { return std::move(program_); }

 private:
  Entry AddNode(ProgramNode node);
  void Reorder(const std::vector<size_t>& order);

  Program program_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PROGRAM_BUILDER_H_
