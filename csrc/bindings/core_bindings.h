/*!
 * \file core_bindings.h
 * \brief What each topic of tofu._core registers.
 */
#ifndef TOFU_BINDINGS_CORE_BINDINGS_H_
#define TOFU_BINDINGS_CORE_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace tofu {

void RegisterGraph(pybind11::module_* module);
void RegisterGeometry(pybind11::module_* module);
void RegisterSearch(pybind11::module_* module);
void RegisterProgram(pybind11::module_* module);

}  // namespace tofu

#endif  // TOFU_BINDINGS_CORE_BINDINGS_H_
