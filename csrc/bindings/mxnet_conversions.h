/*!
 * \file mxnet_conversions.h
 * \brief The parts of tofu._mxnet, and how their values look in Python.
 */
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "nnvm/graph/inference.h"

namespace tofu::bindings {

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

}  // namespace tofu::bindings
