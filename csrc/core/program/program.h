/*!
 * \file program.h
 * \brief The program: the nodes that each worker runs, in order, without names or attributes.
 *
 * EmitProgram (emit.h) writes a program, and the NNVM pass that builds the execution graph reads
 * it. The two are in extension modules with different C++ ABIs, so a program is passed as one flat
 * array of int64 (EncodeProgram, DecodeProgram).
 *
 * Invariants:
 *  - Nodes are in the order of execution: inputs have smaller numbers than their reader. Memory is
 * planned in this order.
 *  - Pieces of a fetch are disjoint boxes inside its shape. Elements that are in no piece hold
 * `fill`.
 *  - A fetch reads a box of an entry in that entry's coordinates (Source::begin), along the fetch's
 * dimensions or the dimensions named by Source::along.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/program/piece.h"

namespace tofu {

enum class NodeKind : int64_t {
  kVariable = 0,  // a worker's shard of a tensor without producer
  kOperator = 1,  // a worker's copy of an operator
  kFetch = 2      // a region assembled on one worker
};

/*! \brief An output of a node. Variables and fetches have a single output, number 0. */
struct Entry {
  int64_t node = -1;
  int64_t index = 0;
};

inline bool operator==(const Entry& a, const Entry& b) {
  return a.node == b.node && a.index == b.index;
}

struct ProgramNode {
  NodeKind kind = NodeKind::kVariable;
  int64_t id = -1;  // the operator; for a variable or a fetch, the tensor
  int64_t worker = 0;
  int64_t phase = 0;                         // see base/phase.h; 0 for variables
  int64_t fill_bits = 0;                     // bits of a fetch's `fill`, a double
  std::vector<std::vector<int64_t>> shapes;  // shape of every output; one for variables and fetches
  std::vector<std::vector<int64_t>>
      begins;  // by output: position of its first element in the whole tensor
  std::vector<Entry> inputs;
  std::vector<Piece> pieces;  // empty unless the node is a fetch

  /*! \brief Add an output that covers a box of its tensor. */
  void AddOutput(const Interval* box, int rank) {
    shapes.push_back(ExtentsOf(box, rank));
    begins.push_back(BeginsOf(box, rank));
  }

  double fill() const {
    double value;
    std::memcpy(&value, &fill_bits, sizeof(value));
    return value;
  }
  void set_fill(double value) { std::memcpy(&fill_bits, &value, sizeof(value)); }
};

struct Program {
  int64_t num_workers = 1;
  std::vector<ProgramNode> nodes;
  // The entries of each requested tensor, worker by worker, and then an entry of every node without
  // readers.
  std::vector<Entry> outputs;
  // Entries that are not shards, but fetched regions, padded copies or partial results on their way
  // between workers.
  std::vector<Entry> transit;
};

/*! \brief Return the name of the group that a worker's nodes have in an execution graph. */
inline std::string NameGroup(int64_t worker) { return "tofu_worker_" + std::to_string(worker); }

/*! \brief Return the name of a worker's shard of a tensor, or of its copy of an operator. */
inline std::string NameShard(const std::string& whole, int64_t worker) {
  return whole + "@" + std::to_string(worker);
}

/*! \brief The first number of an encoded program. It changes with the format. */
constexpr int64_t kProgramFormat = 0x746f667534;

namespace detail {

inline void PutVector(const std::vector<int64_t>& values, std::vector<int64_t>* out) {
  out->push_back(static_cast<int64_t>(values.size()));
  out->insert(out->end(), values.begin(), values.end());
}

inline void PutEntries(const std::vector<Entry>& entries, std::vector<int64_t>* out) {
  out->push_back(static_cast<int64_t>(entries.size()));
  for (const Entry& entry : entries) {
    out->push_back(entry.node);
    out->push_back(entry.index);
  }
}

/*! \brief Append a box as a vector of begins and a vector of extents. */
inline void PutBox(const Box& box, std::vector<int64_t>* out) {
  out->push_back(static_cast<int64_t>(box.size()));
  for (const Interval& interval : box) out->push_back(interval.begin);
  out->push_back(static_cast<int64_t>(box.size()));
  for (const Interval& interval : box) out->push_back(interval.end - interval.begin);
}

inline void PutPiece(const Piece& piece, std::vector<int64_t>* out) {
  PutBox(piece.box, out);
  out->push_back(static_cast<int64_t>(piece.sources.size()));
  for (const Source& source : piece.sources) {
    out->push_back(source.input);
    PutVector(source.begin, out);
    PutVector(source.along, out);
  }
}

inline void PutNode(const ProgramNode& node, std::vector<int64_t>* out) {
  out->push_back(static_cast<int64_t>(node.kind));
  out->push_back(node.id);
  out->push_back(node.worker);
  out->push_back(node.phase);
  out->push_back(node.fill_bits);
  out->push_back(static_cast<int64_t>(node.shapes.size()));
  for (const auto& shape : node.shapes) PutVector(shape, out);
  for (const auto& begin : node.begins) PutVector(begin, out);
  PutEntries(node.inputs, out);
  out->push_back(static_cast<int64_t>(node.pieces.size()));
  for (const Piece& piece : node.pieces) PutPiece(piece, out);
}

}  // namespace detail

/*! \brief Reads an encoded program. Every read is checked against the end of the array. */
class ProgramReader {
 public:
  ProgramReader(const int64_t* data, size_t size) : data_(data), size_(size) {}

  int64_t Get() {
    if (position_ >= size_)
      throw std::invalid_argument("the encoded program ends in the middle of a node");
    return data_[position_++];
  }
  size_t GetCount() {
    const int64_t count = Get();
    if (count < 0 || static_cast<size_t>(count) > size_ - position_) {
      throw std::invalid_argument("the encoded program holds a count that is longer than itself");
    }
    return static_cast<size_t>(count);
  }
  std::vector<int64_t> GetVector() {
    const size_t count = GetCount();
    std::vector<int64_t> values(data_ + position_, data_ + position_ + count);
    position_ += count;
    return values;
  }
  std::vector<Entry> GetEntries() {
    std::vector<Entry> entries(GetCount());
    for (Entry& entry : entries) {
      entry.node = Get();
      entry.index = Get();
    }
    return entries;
  }
  Box GetBox() {
    Box box(GetCount());
    for (Interval& interval : box) interval.begin = Get();
    if (GetCount() != box.size())
      throw std::invalid_argument("the encoded program holds a box of other extents than begins");
    for (Interval& interval : box) interval.end = AddChecked(interval.begin, Get());
    return box;
  }
  Piece GetPiece() {
    Piece piece;
    piece.box = GetBox();
    piece.sources.resize(GetCount());
    for (Source& source : piece.sources) {
      source.input = Get();
      source.begin = GetVector();
      source.along = GetVector();
    }
    return piece;
  }
  std::vector<Piece> GetPieces() {
    std::vector<Piece> pieces(GetCount());
    for (Piece& piece : pieces) piece = GetPiece();
    return pieces;
  }
  ProgramNode GetNode() {
    ProgramNode node;
    const int64_t kind = Get();
    if (kind < 0 || kind > 2)
      throw std::invalid_argument("the encoded program holds an unknown kind of node");
    node.kind = static_cast<NodeKind>(kind);
    node.id = Get();
    node.worker = Get();
    node.phase = Get();
    node.fill_bits = Get();
    node.shapes.resize(GetCount());
    for (auto& shape : node.shapes) shape = GetVector();
    node.begins.resize(node.shapes.size());
    for (auto& begin : node.begins) begin = GetVector();
    node.inputs = GetEntries();
    node.pieces = GetPieces();
    return node;
  }
  bool AtEnd() const { return position_ == size_; }

 private:
  static int64_t AddChecked(int64_t begin, int64_t extent) {
    using Limits = std::numeric_limits<int64_t>;
    if (extent > 0 ? begin > Limits::max() - extent : begin < Limits::min() - extent)
      throw std::invalid_argument("the encoded program holds a box that ends beyond 64 bits");
    return begin + extent;
  }

  const int64_t* data_;
  size_t size_;
  size_t position_ = 0;
};

/*! \brief Encode a program: format, workers, then nodes, outputs and entries in transit, each after
 * its count. */
inline std::vector<int64_t> EncodeProgram(const Program& program) {
  std::vector<int64_t> data;
  data.reserve(64 + program.nodes.size() * 40);
  data.push_back(kProgramFormat);
  data.push_back(program.num_workers);
  data.push_back(static_cast<int64_t>(program.nodes.size()));
  for (const ProgramNode& node : program.nodes) detail::PutNode(node, &data);
  detail::PutEntries(program.outputs, &data);
  detail::PutEntries(program.transit, &data);
  return data;
}

/*!
 * \brief Decode a program.
 * \throws std::invalid_argument if `data` is no encoded program of this format
 */
inline Program DecodeProgram(const int64_t* data, size_t size) {
  ProgramReader reader(data, size);
  if (size < 4 || reader.Get() != kProgramFormat)
    throw std::invalid_argument("not an encoded program of this version of Tofu");
  Program program;
  program.num_workers = reader.Get();
  const size_t num_nodes = reader.GetCount();
  program.nodes.reserve(num_nodes);
  for (size_t i = 0; i < num_nodes; ++i) program.nodes.push_back(reader.GetNode());
  program.outputs = reader.GetEntries();
  program.transit = reader.GetEntries();
  if (!reader.AtEnd()) throw std::invalid_argument("the encoded program goes on after its end");
  return program;
}

}  // namespace tofu
