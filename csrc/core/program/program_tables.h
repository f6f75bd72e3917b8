/*!
 * \file program_tables.h
 * \brief A program as tables of numbers, which Python prints and checks.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tofu {

using Column = std::vector<int64_t>;

/*!
 * \brief Tables of nodes, entries, reads of entries, pieces and sources, in the order of the
 * program. Rows refer to rows of other tables by number.
 *
 * Boxes and shapes have `rank` columns, the largest rank of an entry, at least 1. For entries of
 * lower rank, the remaining dimensions are [0, 1).
 */
struct ProgramTables {
  int64_t num_workers = 1;
  int64_t rank = 1;

  Column node_kind;
  Column node_id;
  Column node_worker;
  Column node_phase;
  std::vector<double> node_fill;

  Column entry_node;
  Column entry_rank;
  Column entry_shape;  // rank columns
  Column entry_begin;  // rank columns; position in its tensor

  Column read_node;   // the reader
  Column read_entry;  // the entry

  Column piece_node;
  Column piece_begin;   // rank columns
  Column piece_extent;  // rank columns

  Column source_piece;
  Column source_read;   // the read of its entry
  Column source_begin;  // rank columns
  Column
      source_along;  // rank columns; the piece's dimension for each dimension of the entry, or -1

  Column output_entry;
  Column transit_entry;
};

/*!
 * \brief Make the tables of a program.
 * \throws std::invalid_argument for missing entries and inputs, and for boxes or sources without
 * the dimensions of their fetch or entry
 */
ProgramTables MakeProgramTables(const Program& program);

}  // namespace tofu
