/*!
 * \file outline.h
 * \brief Outlines of a program: for each worker, its own nodes, and the moments at which others
 * read its entries.
 *
 * The memory of a worker depends on the shapes and the order of its own nodes, and on the moments
 * at which other workers read its entries. An outline contains only these, without the pieces of
 * fetches. Workers with equal outlines need equal memory, so they share one.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program_builder.h"

namespace tofu {

// Takes the place of a node's kind, and marks reads of the worker's entries by other workers.
constexpr int32_t kReadByOthers = -1;

struct Outlines {
  // Distinct nodes, without inputs and pieces. Each has the first worker with such a node.
  std::vector<ProgramNode> kinds;
  /*!
   * \brief Distinct outlines. The numbers of an outline are:
   *  - for each node in order: its kind or kReadByOthers, the number of inputs, and each input as
   *    a node of this worker and an output. Reads by others are not counted as nodes.
   *  - at the end, in the same form, the entries that outlive the step as reads by others.
   */
  std::vector<std::vector<int32_t>> outlines;
  std::vector<int32_t> outline_of_worker;
};

/*! \brief Writes the outlines of k workers. In entries, node n of worker w has the number
 * n * k + w. */
class OutlineBuilder : public NodeSink {
 public:
  explicit OutlineBuilder(int num_workers) : workers_(num_workers) {}

  Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) override;
  Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) override;
  Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                const std::vector<BoxView>& outputs) override;
  void AddOutput(const Entry& entry) override;
  void MarkTransit(const Entry&) override {}
  FetchDetail DetailOf(int) const override { return FetchDetail::kEntries; }

  Outlines Take();

 private:
  struct Worker {
    std::vector<int32_t> code;
    std::vector<int32_t> kinds;  // by node
    std::vector<char> is_read;   // by node
    std::vector<Entry> reads;    // by others, since the last node; nodes are numbers on the worker
    std::vector<Entry> outputs;  // the same
  };

  Worker& OwnerOf(const Entry& entry) { return workers_[entry.node % workers_.size()]; }
  Entry NumberWithin(const Entry& entry) const {
    return {entry.node / static_cast<int64_t>(workers_.size()), entry.index};
  }
  int32_t FindKind(NodeKind kind, int id, int worker, const std::vector<BoxView>& outputs);
  Entry AddNode(NodeKind kind, int id, int worker, const std::vector<Entry>& inputs,
                const std::vector<BoxView>& outputs);
  void NoteInput(const Entry& entry, Worker* reader);
  static void PutReads(std::vector<Entry>* entries, Worker* worker);

  std::vector<Worker> workers_;
  std::vector<ProgramNode> kinds_;
  std::vector<std::vector<int32_t>> kinds_by_id_[3];  // by NodeKind and id
};

}  // namespace tofu
