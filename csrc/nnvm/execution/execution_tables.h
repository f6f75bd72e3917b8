/*!
 * \file execution_tables.h
 * \brief An execution graph as tables of numbers, for checks and a second count of the bytes.
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

/*! \brief A table of numbers, stored row by row. */
struct Table {
  int64_t columns = 1;
  std::vector<int64_t> cells;

  void Append(const std::vector<int64_t>& row) {
    cells.insert(cells.end(), row.begin(), row.end());
  }
};

/*!
 * \brief Nodes in topological order, and the fetches among them. A fetch consists of pieces, and a
 * piece is summed from sources.
 *
 * Boxes and shapes have as many columns as the largest rank of a fetch. Missing dimensions are [0,
 * 1). Unknown extents are -1.
 */
struct ExecutionTables {
  std::vector<std::string> node_names;
  std::vector<std::string> group_names;
  Column node_group;   // -1: none
  Table edges;         // reader, producer
  Table control_deps;  // waiting node, awaited node

  Column fetch_node;
  Column fetch_type;  // MXNet's type code
  Table fetch_shape;
  Column piece_fetch;  // row of the fetches
  Table piece_begin;
  Table piece_extent;
  Column source_piece;  // row of the pieces
  Column source_node;
  Table source_begin;
  Table source_along;  // the piece's dimension of each of the entry's, or -1
  Table source_shape;  // of the whole entry

  Column output_node;
  std::vector<MaybeShape> output_shapes;
};

/*!
 * \brief Read a graph whose variables carry shapes and types.
 * \\param shapes shapes of variables, in place of those that the variables carry
 */
ExecutionTables ReadExecutionTables(SymbolHandle symbol, const ShapesByName& shapes);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_EXECUTION_EXECUTION_TABLES_H_
