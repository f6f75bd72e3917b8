/*!
 * \file program_builder.h
 * \brief Appends nodes to a program, in the order of execution.
 */
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/program/fetch_pieces.h"
#include "core/program/program.h"

namespace tofu {

/*! \brief A box that is stored elsewhere. */
struct BoxView {
  const Interval* intervals;
  int rank;
};

/*! \brief Receives the nodes of a program, in the order of execution. */
class NodeSink {
 public:
  virtual ~NodeSink() = default;

  virtual Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) = 0;

  virtual Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) = 0;

  virtual Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                        const std::vector<BoxView>& outputs) = 0;

  virtual void AddOutput(const Entry& entry) = 0;

  /*! \brief Mark an entry that is not a shard, but on its way to a shard or an operator. */
  virtual void MarkTransit(const Entry& entry) = 0;

  /*! \brief Return what a worker's fetches need. */
  virtual FetchDetail DetailOf(int worker) const = 0;

 protected:
  /*! \brief Note that an output of a node is read on some worker. */
  void NoteRead(const ProgramNode& node, int64_t index) {
    if (node.kind == NodeKind::kOperator) read_outputs_.try_emplace(node.id, index);
  }

  /*!
   * \brief Return the output that stands for a node without readers. A framework runs only nodes
   * that outputs need, so these nodes become outputs.
   *
   * Prefer an output that some worker reads. Some kernels of MXNet cannot compute other outputs,
   * such as gradients of indices.
   */
  int64_t FindReadOutput(const ProgramNode& node) const {
    const auto found =
        node.kind == NodeKind::kOperator ? read_outputs_.find(node.id) : read_outputs_.end();
    return found == read_outputs_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<int64_t, int64_t> read_outputs_;  // by operator: the output that is read first
};

/*! \brief Writes the program of all workers. */
class ProgramBuilder : public NodeSink {
 public:
  /*! \param readers the workers whose fetches have pieces, or none for all workers */
  ProgramBuilder(int num_workers, const std::vector<int>& readers)
      : details_(num_workers, readers.empty() ? FetchDetail::kPieces : FetchDetail::kNone) {
    program_.num_workers = num_workers;
    for (int reader : readers) details_.at(reader) = FetchDetail::kPieces;
  }

  Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) override;
  Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) override;
  Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                const std::vector<BoxView>& outputs) override;
  void AddOutput(const Entry& entry) override;
  void MarkTransit(const Entry& entry) override { program_.transit.push_back(entry); }
  FetchDetail DetailOf(int worker) const override { return details_[worker]; }

  /*!
   * \brief Make the copies of one worker adjacent if there is no fetch between them, so that a
   * framework can run them at once.
   *
   * No worker reads other workers' entries between two fetches, so the lifetimes of buffers stay
   * the same. Phases are not mixed, because a framework may stop between them.
   */
  void GroupByWorker();

  /*! \brief Make all nodes without readers outputs. */
  void KeepUnread();

  Program Take() { return std::move(program_); }

 private:
  Entry AddNode(ProgramNode node);
  void NoteInput(const Entry& entry) { NoteRead(program_.nodes[entry.node], entry.index); }
  void Reorder(const std::vector<size_t>& order);

  std::vector<FetchDetail> details_;  // by worker
  Program program_;
};

}  // namespace tofu
