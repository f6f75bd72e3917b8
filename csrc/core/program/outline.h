/*!
 * \file outline.h
 * \brief Outlines of programs: the nodes of one worker, and when others read its entries.
 *
 * The memory of a worker depends on its own nodes, and on the order in which other workers read its
 * entries. An outline contains just these, so it is as small for many workers as for few. It is a
 * program with the following differences:
 *  - Fetches have no pieces. They read only entries of their own worker.
 *  - Reads by fetches of other workers are fetches of one element on a worker that does not exist,
 *    number num_workers. Reads for one tensor without a node of the worker in between are one
 * fetch.
 */
#ifndef TOFU_CORE_PROGRAM_OUTLINE_H_
#define TOFU_CORE_PROGRAM_OUTLINE_H_

#include <cstdint>
#include <vector>

#include "core/program/program_builder.h"

namespace tofu {

/*! \brief Writes the outlines of the workers [begin, end). The node of an entry is its number in
 * the outline times the number of workers, plus the worker. */
class OutlineBuilder : public NodeSink {
 public:
  OutlineBuilder(int num_workers, int begin, int end);

  Entry AddVariable(int tensor, int worker, const Interval* shard, int rank) override;
  Entry AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) override;
  Entry AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                const std::vector<Box>& outputs) override;
  void AddOutput(const Entry& entry) override;
  void MarkTransit(const Entry& entry) override;
  bool HasPieces() const override { return false; }
  bool IsFollowed(int worker, int owner) const override {
    return worker == owner || IsOutlined(owner);
  }
  bool IsFollowed(const Entry& entry) const override { return entry.node < NotFollowed(0); }
  void KeepUnread(const std::vector<int>& used) override;

  /*! \brief Return the encoded outlines (EncodeProgram), in the order of the workers. */
  std::vector<std::vector<int64_t>> Take();

 private:
  // The node of a fetch on another worker that reads nothing of an outlined worker.
  int64_t NotFollowed(int worker) const { return (int64_t{num_workers_} << 40) + worker; }

  /*! \brief Fetches of one tensor by other workers. */
  struct Reads {
    int tensor;
    int phase;
    std::vector<Entry> entries;
  };

  struct Outline {
    std::vector<int64_t> code;      // of the nodes
    std::vector<int64_t> ops;       // by node: its operator, or -1
    std::vector<char> is_read;      // by node; true for variables
    std::vector<char> is_variable;  // by node
    std::vector<Reads> reads;       // since the last node
    std::vector<Entry> outputs;
    std::vector<Entry> transit;
  };

  bool IsOutlined(int worker) const { return worker >= begin_ && worker < end_; }
  int OwnerOf(const Entry& entry) const { return static_cast<int>(entry.node % num_workers_); }
  Entry NumberWithin(const Entry& entry) const { return {entry.node / num_workers_, entry.index}; }
  Outline& OutlineOf(int worker) { return outlines_[worker - begin_]; }

  Entry AddNode(ProgramNode node);
  void PutNode(const ProgramNode& node, Outline* outline);
  void PutReads(const ProgramNode* next, Outline* outline);

  int num_workers_;
  int begin_;
  int end_;
  std::vector<Outline> outlines_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_OUTLINE_H_
