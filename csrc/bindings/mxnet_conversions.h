/*!
 * \file mxnet_conversions.h
 * \brief The parts of tofu._mxnet, and how their values look in Python.
 */
#ifndef TOFU_BINDINGS_MXNET_CONVERSIONS_H_
#define TOFU_BINDINGS_MXNET_CONVERSIONS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "nnvm/execution/execution_tables.h"
#include "nnvm/graph/inference.h"

namespace tofu {
namespace bindings {

/*! \brief A RuntimeError with the message alone, without MXNet's time stamp, source line and stack
 * trace. */
void RegisterErrors();
void RegisterGraph(pybind11::module_* module);
void RegisterExecution(pybind11::module_* module);
void RegisterPlannedGraph(pybind11::module_* module);
void RegisterGpu(pybind11::module_* module);
void RegisterAutograd(pybind11::module_* module);

inline pybind11::object ToPython(const nnvm_layer::MaybeShape& shape) {
  if (!shape.has_rank) return pybind11::none();
  return pybind11::tuple(pybind11::cast(shape.extents));
}

inline pybind11::array_t<int64_t> ToArray(const nnvm_layer::Column& column) {
  return pybind11::array_t<int64_t>(column.size(), column.data());
}

/*! \brief [rows, columns]. */
inline pybind11::array_t<int64_t> ToArray(const nnvm_layer::Table& table) {
  const int64_t rows = table.cells.size() / table.columns;
  return pybind11::array_t<int64_t>({rows, table.columns}, table.cells.data());
}

}  // namespace bindings
}  // namespace tofu

#endif  // TOFU_BINDINGS_MXNET_CONVERSIONS_H_
