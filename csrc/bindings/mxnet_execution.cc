/*!
 * \file mxnet_execution.cc
 * \brief Bindings of execution_graph, executor and the kernel's counters.
 */
#include <pybind11/numpy.h>

#include <tuple>

#include "bindings/mxnet_conversions.h"
#include "nnvm/execution/execution_graph.h"
#include "nnvm/execution/executor.h"
#include "nnvm/execution/marked_outputs.h"
#include "nnvm/fetch/multi_fetch_kernel.h"
#include "nnvm/memory/outline_memory.h"

namespace tofu::bindings {
namespace {

namespace py = pybind11;
using namespace nnvm_layer;  // NOLINT(build/namespaces)

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

/*! \brief (name, operator, attributes, types of inputs, types of outputs). */
using OwnOperatorFields =
    std::tuple<std::string, std::string, AttributeChanges, std::vector<int>, std::vector<int>>;

ExecutionGraphBuilder MakeBuilder(
    SymbolHandle training, std::vector<int64_t> operator_nodes,
    std::vector<AttributeChanges> attributes, const Array<int32_t>& attribute_index,
    std::vector<std::string> tensor_names, std::vector<int> tensor_dtypes,
    std::vector<int64_t> variables,
    const std::unordered_map<int64_t, OwnOperatorFields>& own_operators,
    const std::unordered_map<int64_t, int>& reducers, RequestedOutputs requested_outputs) {
  ExecutionInput input;
  input.training = training;
  input.operator_nodes = std::move(operator_nodes);
  input.attributes = std::move(attributes);
  input.attribute_index.assign(attribute_index.data(),
                               attribute_index.data() + attribute_index.size());
  input.tensor_names = std::move(tensor_names);
  input.tensor_types = std::move(tensor_dtypes);
  input.variables = std::move(variables);
  for (const auto& own : own_operators) {
    input.own_operators[own.first] = {std::get<0>(own.second), std::get<1>(own.second),
                                      std::get<2>(own.second), std::get<3>(own.second),
                                      std::get<4>(own.second)};
  }
  input.requested_outputs = std::move(requested_outputs);
  for (const auto& reducer : reducers) {
    input.reducers[reducer.first] = static_cast<Reducer>(reducer.second);
  }
  return ExecutionGraphBuilder(std::move(input));
}

std::vector<int64_t> PoolBytesToPython(const ExecutionGraphBuilder& builder,
                                       const Array<int64_t>& kinds,
                                       const std::vector<Array<int32_t>>& outlines) {
  std::vector<OutlineCode> codes;
  for (const Array<int32_t>& outline : outlines) {
    codes.push_back({outline.data(), outline.data() + outline.size()});
  }
  const Program decoded = DecodeProgram(kinds.data(), static_cast<size_t>(kinds.size()));
  return CountPoolBytes(builder, decoded.nodes, codes);
}

py::dict CountersToPython() {
  const FetchCounters counters = ReadFetchCounters();
  py::dict result;
  result["bytes_read_remote"] = counters.bytes_read_remote;
  result["bytes_read_local"] = counters.bytes_read_local;
  result["launches"] = counters.launches;
  return result;
}

py::dict StorageToPython(ObjectHandle array) {
  StorageInfo info;
  {
    const py::gil_scoped_release wait_without_lock;
    info = DescribeStorage(array);
  }
  py::dict result;
  result["device_type"] = info.device_type;
  result["device_id"] = info.device_id;
  result["address"] = info.address;
  result["bytes"] = info.bytes;
  return result;
}

}  // namespace

void RegisterExecution(py::module_* module) {
  py::class_<ExecutionGraphBuilder>(*module, "ExecutionGraphBuilder")
      .def(py::init(&MakeBuilder), py::arg("training"), py::arg("operator_nodes"),
           py::arg("attributes"), py::arg("attribute_index"), py::arg("tensor_names"),
           py::arg("tensor_dtypes"), py::arg("variables"),
           py::arg("own_operators") = std::unordered_map<int64_t, OwnOperatorFields>(),
           py::arg("reducers") = std::unordered_map<int64_t, int>(),
           py::arg("requested_outputs") = RequestedOutputs())
      .def(
          "build",
          [](const ExecutionGraphBuilder& builder, const Array<int64_t>& program) {
            return builder.Build(
                DecodeProgram(program.data(), static_cast<size_t>(program.size())));
          },
          py::arg("program"))
      .def("count_pool_bytes", PoolBytesToPython, py::arg("kinds"), py::arg("outlines"));
  module->def(
      "keep_outputs",
      [](SymbolHandle graph, uint32_t begin, uint32_t end) {
        KeepingGraph made = KeepOutputs(graph, begin, end);
        return std::make_pair(made.symbol, std::move(made.kept));
      },
      py::arg("graph"), py::arg("begin"), py::arg("end"));
  module->def("partial_forward", PartialForward, py::arg("executor"), py::arg("is_train"),
              py::arg("begin"), py::arg("end"), py::call_guard<py::gil_scoped_release>());
  module->def("bulk_nodes", BulkNodes, py::arg("executor"), py::arg("symbol"));
  module->def("order_after", OrderAfter, py::arg("written"), py::arg("results"),
              py::call_guard<py::gil_scoped_release>());
  module->def("boundary", FindBoundary, py::arg("symbol"), py::arg("num_outputs"));
  module->def("counters", CountersToPython);
  module->def("reset_counters", ResetFetchCounters);
  module->def("storage_info", StorageToPython, py::arg("array"));
  module->def("array_version", CountWrites, py::arg("array"),
              py::call_guard<py::gil_scoped_release>());
  module->def("array_digest", DigestArray, py::arg("array"),
              py::call_guard<py::gil_scoped_release>());
}

}  // namespace tofu::bindings
