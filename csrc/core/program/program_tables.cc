/*!
 * \file program_tables.cc
 */
#include "core/program/program_tables.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace tofu {

namespace {

class TableMaker {
 public:
  explicit TableMaker(const Program& program) : program_(program) {}

  ProgramTables Run() {
    tables_.num_workers = program_.num_workers;
    AddEntries();
    for (size_t id = 0; id < program_.nodes.size(); ++id) AddNode(static_cast<int64_t>(id));
    for (const Entry& entry : program_.outputs) tables_.output_entry.push_back(FindRow(entry));
    for (const Entry& entry : program_.transit) tables_.transit_entry.push_back(FindRow(entry));
    return std::move(tables_);
  }

 private:
  /*! \brief Add all entries first: an invalid program may read later ones. */
  void AddEntries() {
    size_t rank = 1;
    for (const ProgramNode& node : program_.nodes) {
      for (const auto& shape : node.shapes) rank = std::max(rank, shape.size());
    }
    tables_.rank = static_cast<int64_t>(rank);
    for (size_t id = 0; id < program_.nodes.size(); ++id) {
      first_entry_.push_back(static_cast<int64_t>(tables_.entry_node.size()));
      const ProgramNode& node = program_.nodes[id];
      for (size_t i = 0; i < node.shapes.size(); ++i) {
        if (node.begins[i].size() != node.shapes[i].size())
          Refuse("node ", id, " begins in other dimensions than its shape has");
        tables_.entry_node.push_back(static_cast<int64_t>(id));
        tables_.entry_rank.push_back(static_cast<int64_t>(node.shapes[i].size()));
        Append(node.shapes[i], 1, &tables_.entry_shape);
        Append(node.begins[i], 0, &tables_.entry_begin);
      }
    }
  }

  void AddNode(int64_t id) {
    const ProgramNode& node = program_.nodes[id];
    tables_.node_kind.push_back(static_cast<int64_t>(node.kind));
    tables_.node_id.push_back(node.id);
    tables_.node_worker.push_back(node.worker);
    tables_.node_phase.push_back(node.phase);
    tables_.node_fill.push_back(node.fill());
    const int64_t first_read = static_cast<int64_t>(tables_.read_node.size());
    for (const Entry& input : node.inputs) {
      tables_.read_node.push_back(id);
      tables_.read_entry.push_back(FindRow(input));
    }
    for (const Piece& piece : node.pieces) AddPiece(id, piece, first_read);
  }

  void AddPiece(int64_t id, const Piece& piece, int64_t first_read) {
    CheckPiece(id, piece);
    const int64_t row = static_cast<int64_t>(tables_.piece_node.size());
    tables_.piece_node.push_back(id);
    for (const Interval& interval : piece.box) {
      tables_.piece_begin.push_back(interval.begin);
      tables_.piece_extent.push_back(interval.end - interval.begin);
    }
    Pad(piece.box.size(), 0, &tables_.piece_begin);
    Pad(piece.box.size(), 1, &tables_.piece_extent);
    for (const Source& source : piece.sources) {
      tables_.source_piece.push_back(row);
      tables_.source_read.push_back(first_read + source.input);
      Append(source.begin, 0, &tables_.source_begin);
      std::vector<int64_t> along;
      for (size_t d = 0; d < source.begin.size(); ++d) along.push_back(source.Along(d));
      Append(along, kNoDimension, &tables_.source_along);
    }
  }

  void CheckPiece(int64_t id, const Piece& piece) const {
    const ProgramNode& node = program_.nodes[id];
    if (node.shapes.size() != 1) Refuse("node ", id, " has pieces, and not one shape");
    const size_t rank = node.shapes.front().size();
    bool has_rank = piece.box.size() == rank;
    for (const Source& source : piece.sources) {
      has_rank = has_rank && FindWrongDimensions(source, piece.box).empty();
      if (source.input < 0 || source.input >= static_cast<int64_t>(node.inputs.size())) {
        Refuse("node ", id, " has ", node.inputs.size(), " inputs, a piece reads number ",
               source.input);
      }
    }
    if (!has_rank) Refuse("node ", id, " has ", rank, " dimensions, and a piece of it others");
    for (const Source& source : piece.sources) {
      const Entry& entry = node.inputs[source.input];
      const size_t entry_rank = program_.nodes[entry.node].shapes[entry.index].size();
      if (source.begin.size() == entry_rank) continue;
      Refuse("node ", id, " reads ", source.begin.size(), " dimensions of an entry that has ",
             entry_rank);
    }
  }

  int64_t FindRow(const Entry& entry) const {
    const bool is_node = entry.node >= 0 && entry.node < static_cast<int64_t>(first_entry_.size());
    if (!is_node || entry.index < 0 ||
        entry.index >= static_cast<int64_t>(program_.nodes[entry.node].shapes.size()))
      Refuse("there is no output ", entry.index, " of a node ", entry.node);
    return first_entry_[entry.node] + entry.index;
  }

  void Append(const std::vector<int64_t>& values, int64_t padding, Column* column) const {
    column->insert(column->end(), values.begin(), values.end());
    Pad(values.size(), padding, column);
  }

  /*! \brief Fill the columns of dimensions that a row of `rank` lacks. */
  void Pad(size_t rank, int64_t padding, Column* column) const {
    column->insert(column->end(), static_cast<size_t>(tables_.rank) - rank, padding);
  }

  const Program& program_;
  ProgramTables tables_;
  std::vector<int64_t> first_entry_;  // by node
};

}  // namespace

ProgramTables MakeProgramTables(const Program& program) { return TableMaker(program).Run(); }

}  // namespace tofu
