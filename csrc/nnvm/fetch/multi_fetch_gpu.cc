/*!
 * \file multi_fetch_gpu.cc
 */
#include "nnvm/fetch/multi_fetch_gpu.h"

#include "cuda/peer_reads.h"
#include "nnvm/base/gpu_call.h"
#include "nnvm/fetch/multi_fetch_kernel.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/graph/inference.h"

namespace tofu::nnvm_layer {
namespace {

cuda::FetchGeometry GeometryOf(const MultiFetchParam& param, const FetchArrays& arrays) {
  cuda::FetchGeometry geometry;
  geometry.shape.assign(param.shape.begin(), param.shape.end());
  for (const mxnet::TShape& shape : arrays.shapes) {
    geometry.inputs.emplace_back(shape.begin(), shape.end());
  }
  geometry.pieces = param.pieces;
  geometry.element_bytes = static_cast<int>(mshadow::mshadow_sizeof(arrays.type));
  return geometry;
}

bool IsSame(const FetchArrays& a, const FetchArrays& b) {
  return a.type == b.type && a.device == b.device && a.shapes == b.shapes && a.devices == b.devices;
}

int DeviceOf(const nnvm::Node& node, const std::map<std::string, int>& devices) {
  const std::string* group = FindText(node.attrs, kGroupAttribute);
  const auto device = group == nullptr ? devices.end() : devices.find(*group);
  CHECK(device != devices.end()) << "there is no GPU for the worker of " << node.attrs.name;
  return device->second;
}

FetchArrays ArraysOf(const nnvm::Graph& graph, uint32_t id,
                     const std::map<std::string, int>& devices) {
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  FetchArrays arrays;
  arrays.type = graph.GetAttr<nnvm::DTypeVector>("dtype")[index.entry_id(id, 0)];
  arrays.device = DeviceOf(*index[id].source, devices);
  for (const auto& entry : index[id].inputs) {
    arrays.shapes.push_back(graph.GetAttr<mxnet::ShapeVector>("shape")[index.entry_id(entry)]);
    arrays.devices.push_back(DeviceOf(*index[entry.node_id].source, devices));
  }
  return arrays;
}

/*! \brief Let all GPUs read each other's memory, and test that it works. */
void EnableAllAccess(const std::map<std::string, int>& devices) {
  for (const auto& reader : devices) {
    for (const auto& owner : devices) {
      if (!cuda::StagesAll()) {
        cuda::Device::Get(reader.second).CanRead(cuda::Device::Get(owner.second));
      }
      cuda::CheckPeerReads(reader.second, owner.second);
    }
  }
}

/*! \brief Compile the kernels of a part. Does nothing for other operators. */
void PreparePart(const nnvm::Graph& graph, uint32_t id, const std::map<std::string, int>& devices) {
  static const auto& kernels_of = nnvm::Op::GetAttr<PartKernels>(kPartKernels);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  const nnvm::Node& node = *index[id].source;
  if (node.is_variable() || kernels_of.count(node.op()) == 0) return;
  const int type = graph.GetAttr<nnvm::DTypeVector>("dtype")[index.entry_id(index[id].inputs[0])];
  cuda::Device& device = cuda::Device::Get(DeviceOf(node, devices));
  CallGpu(node.attrs.name, [&] {
    for (const cuda::PartKernel& kernel : kernels_of[node.op()]) {
      device.FindKernel(kernel.file, KernelTypeName(type), kernel.name);
    }
  });
}

}  // namespace

std::shared_ptr<cuda::DeviceFetch> GpuFetch::Prepare(const MultiFetchParam& param,
                                                     const FetchArrays& arrays) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [prepared_for, prepared] : prepared_) {
    if (IsSame(prepared_for, arrays)) return prepared;
  }
  prepared_.emplace_back(arrays, std::make_shared<cuda::DeviceFetch>(
                                     GeometryOf(param, arrays), KernelTypeName(arrays.type),
                                     arrays.device, arrays.devices));
  return prepared_.back().second;
}

StagedBytes PrepareGpuKernels(SymbolHandle symbol, const std::map<std::string, int>& devices) {
  EnableAllAccess(devices);
  const nnvm::Graph graph = InferGraphTypes(InferGraph(GraphOf(symbol), {}, {}), {});
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  StagedBytes staged;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::NodeAttrs& attrs = index[id].source->attrs;
    PreparePart(graph, id, devices);
    if (attrs.op != MultiFetchOp()) continue;
    const FetchArrays arrays = ArraysOf(graph, id, devices);
    const MultiFetchParam& param = MultiFetchParamOf(attrs);
    std::shared_ptr<cuda::DeviceFetch> prepared;
    CallGpu(attrs.name, [&] { prepared = param.gpu->Prepare(param, arrays); });
    for (size_t i = 0; i < arrays.devices.size(); ++i) {
      if (prepared->staged_bytes(i) == 0) continue;
      staged[{arrays.device, arrays.devices[i]}] += prepared->staged_bytes(i);
    }
  }
  return staged;
}

void ComputeMultiFetchOnGpu(const nnvm::NodeAttrs& attrs, const mxnet::OpContext& context,
                            const std::vector<mxnet::TBlob>& inputs,
                            const std::vector<mxnet::OpReqType>& requests,
                            const std::vector<mxnet::TBlob>& outputs) {
  if (requests[0] == mxnet::kNullOp || SkipsFetches()) return;
  const MultiFetchParam& param = MultiFetchParamOf(attrs);
  CountFetch(param, inputs, outputs[0]);
  FetchArrays arrays;
  arrays.type = outputs[0].type_flag_;
  arrays.device = outputs[0].dev_id();
  cuda::FetchCall call;
  call.output = outputs[0].dptr_;
  call.fill = param.fill;
  call.adds = requests[0] == mxnet::kAddTo;
  call.reducer = param.reducer;
  call.stream = StreamOf(context);
  for (const mxnet::TBlob& input : inputs) {
    arrays.shapes.push_back(input.shape_);
    arrays.devices.push_back(input.dev_id());
    call.inputs.push_back(input.dptr_);
  }
  CallGpu(attrs.name, [&] { param.gpu->Prepare(param, arrays)->Launch(call); });
}

}  // namespace tofu::nnvm_layer
