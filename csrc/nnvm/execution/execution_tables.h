/*!
 * \file execution_tables.h
 * \brief An execution graph read back from its nodes, as tables of numbers: the base of the checks
 * and of the independent byte count.
 */
#ifndef TOFU_NNVM_EXECUTION_EXECUTION_TABLES_H_
#define TOFU_NNVM_EXECUTION_EXECUTION_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nnvm/base/mxnet_api.h"
#include "nnvm/graph/inference.h"

namespace tofu {
namespace nnvm_layer {

using Column = std::vector<int64_t>;

/*! \brief Several columns, row by row. */
struct Table {
  int64_t columns = 1;
  std::vector<int64_t> cells;

  void Append(const std::vector<int64_t>& row) {
    cells.insert(cells.end(), row.begin(), row.end());
  }
};

/*!
 * \brief Nodes by number, in topological order; fetches, their pieces and the sources of those.
 *
 * Boxes and shapes have as many columns as the fetch of the most dimensions has: in the others'
 * missing dimensions they are the one cell 0. An extent that is not known is -1.
 */
struct ExecutionTables {
  std::vector<std::string> node_names;
  std::vector<std::string> group_names;
  Column node_group;   // -1: in none
  Table edges;         // reader, producer
  Table control_deps;  // who waits, for whom

  Column fetch_node;
  Column fetch_type;  // MXNet's type code
  Table fetch_shape;
  Column piece_fetch;  // position in the tables of fetches
  Table piece_begin;
  Table piece_extent;
  Column source_piece;  // position in the tables of pieces
  Column source_node;
  Table source_begin;
  Table source_along;  // the piece's dimension of each of the entry's, or -1
  Table source_shape;  // of the whole entry that is read

  Column output_node;
  std::vector<MaybeShape> output_shapes;
};

/*!
 * \brief Read a graph whose variables carry shapes and types.
 * \param shapes of variables, before those that they carry
 */
ExecutionTables ReadExecutionTables(SymbolHandle symbol, const ShapesByName& shapes);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_EXECUTION_TABLES_H_
