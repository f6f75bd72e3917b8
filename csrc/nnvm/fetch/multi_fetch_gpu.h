/*!
 * \file multi_fetch_gpu.h
 * \brief _tofu_multi_fetch on GPUs. A fetch is prepared when its graph is bound, and is then one
 * launch per run.
 */
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_fetch.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/fetch/multi_fetch.h"

namespace tofu::nnvm_layer {

/*! \brief Types, shapes and devices of a fetch's arrays. */
struct FetchArrays {
  int type = -1;
  int device = 0;
  std::vector<mxnet::TShape> shapes;  // of the inputs
  std::vector<int> devices;           // of the inputs
};

/*! \brief Prepared launches of a fetch. If a fetch was not prepared, its first run prepares it. */
class GpuFetch {
 public:
  std::shared_ptr<cuda::DeviceFetch> Prepare(const MultiFetchParam& param,
                                             const FetchArrays& arrays);

 private:
  std::mutex mutex_;
  // One for each set of GPUs to which the symbol is bound.
  std::vector<std::pair<FetchArrays, std::shared_ptr<cuda::DeviceFetch>>> prepared_;
};

/*! \brief (reading GPU, owning GPU) -> bytes that each run copies first, because the reading GPU
 * cannot access the owner's memory. */
using StagedBytes = std::map<std::pair<int, int>, int64_t>;

/*!
 * \brief Enable and test peer access between all GPUs of an execution graph, compile the kernels of
 * its parts, and prepare its fetches.
 * \\param symbol the symbol that is bound
 * \\param devices the GPU of each group
 * \\throw dmlc::Error naming the fetch; cuda::CudaError if a GPU cannot be used
 */
StagedBytes PrepareGpuKernels(SymbolHandle symbol, const std::map<std::string, int>& devices);

void ComputeMultiFetchOnGpu(const nnvm::NodeAttrs& attrs, const mxnet::OpContext& context,
                            const std::vector<mxnet::TBlob>& inputs,
                            const std::vector<mxnet::OpReqType>& requests,
                            const std::vector<mxnet::TBlob>& outputs);

}  // namespace tofu::nnvm_layer
