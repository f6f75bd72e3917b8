/*!
 * \file core_module.cc
 * \brief The extension module tofu._core: search, geometry and emission. It does not use MXNet.
 */
#include "bindings/core_conversions.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Search, geometry and execution programs of Tofu; see _core.pyi.";
  tofu::RegisterGraph(&module);
  tofu::RegisterGeometry(&module);
  tofu::RegisterSearch(&module);
  tofu::RegisterProgram(&module);
}
