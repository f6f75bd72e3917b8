/*!
 * \file program_tables.h
 * \brief A program as tables of numbers, which are looked at whole: the base of its Python view and
 * of its check.
 */
#ifndef TOFU_CORE_PROGRAM_PROGRAM_TABLES_H_
#define TOFU_CORE_PROGRAM_PROGRAM_TABLES_H_

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tofu {

using Column = std::vector<int64_t>;

/*!
 * \brief One table each for nodes, entries, reads of entries, pieces and sources, in the order of
 * the program. Rows of other tables are referred to by position.
 *
 * Boxes and shapes have `rank` columns, as many as the entry of the most dimensions has, and at
 * least one: in the others' missing dimensions they are the one cell 0.
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
  Column entry_begin;  // rank columns: where it begins in its tensor

  Column read_node;   // who reads
  Column read_entry;  // what is read

  Column piece_node;
  Column piece_begin;   // rank columns
  Column piece_extent;  // rank columns

  Column source_piece;
  Column source_read;   // the read through which the entry is reached
  Column source_begin;  // rank columns
  Column source_along;  // rank columns: the piece's dimension of each of the entry's, or -1

  Column output_entry;
  Column transit_entry;
};

/*!
 * \brief The tables of a program.
 * \throws std::invalid_argument where they cannot be made: for entries and inputs that there are
 * not, for boxes that have not the dimensions of their fetch, and for sources that have not those
 * of their entry
 */
ProgramTables MakeProgramTables(const Program& program);

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PROGRAM_TABLES_H_
