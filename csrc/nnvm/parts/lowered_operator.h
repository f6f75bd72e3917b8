/*!
 * \file lowered_operator.h
 * \brief Attributes, signatures and registration of the parts that replace MXNet's (stock)
 * operators.
 *
 * A stock operator is replaced if workers must exchange numbers before it can finish. For example,
 * BatchNorm split by batch needs the mean of the complete batch. Its first parts compute sums over
 * a shard, and its last part uses the total sums.
 */
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/parts/dimension_view.h"

namespace tofu::nnvm_layer {

// Used by all kernels.
using cuda::PartLoop;
using mxnet::OpContext;
using mxnet::TBlob;
using nnvm::NodeAttrs;
using Blobs = std::vector<TBlob>;
using Requests = std::vector<mxnet::OpReqType>;

/*! \brief FInplaceOption: the first output may replace the first input. */
inline std::vector<std::pair<int, int>> FirstInPlace(const NodeAttrs&) { return {{0, 0}}; }

/*! \brief Attributes of the stock operators with their names and defaults, and `count`. */
struct LoweredParam {
  int axis = 1;
  int64_t count = 1;  // elements of the whole tensor in a sum
  double eps = 0;
  double momentum = 0.9f;  // single precision in MXNet
  double temperature = 1;
  cuda::Window window = {1, 1, 0, 0, 1, 0};
  cuda::Labels labels = {1, 0, -1, 0, 1, 0};
  cuda::Positions positions = {0, 1, 1, 0, cuda::kClipped, 0, 1};
  double valid_thresh = 0;
  double on_value = 1;   // at the position of an index
  double off_value = 0;  // elsewhere
  bool keepdims = false;
  bool fix_gamma = true;
  bool use_global_stats = false;
};

/*! \brief Read a boolean attribute as MXNet does. */
bool ReadFlag(const NodeAttrs& attrs, const char* key, bool otherwise);

/*! \brief Return the parsed attributes of a part. */
const LoweredParam& LoweredParamOf(const nnvm::NodeAttrs& attrs);

/*!
 * \brief Shapes and types of an operator's tensors, one letter each:
 *  d  like the data
 *  v  a vector along `axis`, of the data's type
 *  r  like v, but in single precision for data in half precision
 *  V  like v, in double precision
 *  l  like the data, with extent 1 in dimension `axis`
 *  L  like l, in double precision
 *  n  a number per line, of the data's type, in any shape
 *  N  one number in double precision
 *  i  indices of any shape and type
 *  t  of the data's type, in the shape that `result` computes from data and indices
 */
struct Signature {
  const char* inputs;
  const char* outputs;
  mxnet::TShape (*result)(const LoweredParam&, const mxnet::TShape& data,
                          const mxnet::TShape& indices) = nullptr;
};

/*! \brief What a kernel loops over, and the meaning of its indices, if any. */
struct PartView {
  DimensionView loop;
  cuda::Positions positions;
};

using ViewOf = PartView (*)(const LoweredParam&, const Blobs& inputs, const Blobs& outputs);

/*! \brief The first input along dimension `axis`. */
inline PartView ViewData(const LoweredParam& param, const Blobs& inputs, const Blobs&) {
  return {DimensionView(inputs[0].shape_, param.axis), param.positions};
}

/*! \brief One run of an operator on a CPU. */
struct PartCall {
  const LoweredParam& param;
  bool is_train;
  const Blobs& inputs;
  const Requests& requests;
  const Blobs& outputs;
  DimensionView view;
  cuda::Positions positions;

  template <typename DType>
  DType* Input(size_t i) const {
    return inputs[i].dptr<DType>();
  }
  /*! \brief Write value(line, position, cell) to every element of the first output. */
  template <typename DType, typename Value>
  void MapCells(const Value& value) const {
    nnvm_layer::MapCells(view, requests[0], outputs[0].dptr<DType>(), value);
  }
  /*! \brief Write value(n) to every element of output `i`, a small tensor. */
  template <typename DType, typename Value>
  void MapElements(size_t i, const Value& value) const {
    nnvm_layer::MapElements<DType>(requests[i], outputs[i], value);
  }
  void StoreSums(size_t i, const std::vector<double>& sums) const {
    MapElements<double>(i, [&](size_t n) { return sums[n]; });
  }
};

/*! \brief Properties of all parts of one kernel file: defaults of attributes. */
struct PartFamily {
  const char* kernel_file;
  int axis;
  double eps = 0;
  bool holds_eps_as_float = false;
};

/*! \brief A part of an operator. Its GPU kernel has its name and runs `loop`, unless `kernels`
 * lists others. */
struct Part {
  const char* name;
  Signature signature;
  void (*compute)(const PartCall&);
  PartLoop loop;
  ViewOf view = ViewData;
  std::vector<cuda::PartKernel> kernels = {};
};

/*! \brief Register parts for the CPU and for GPUs. Return true. */
bool RegisterParts(const PartFamily& family, const std::vector<Part>& parts);

/*!
 * \brief Register parts that accept oneDNN's layout on CPUs. Return true.
 *
 * Tensors with letter d are in blocks (DimensionView::block) if all such inputs are and `axis` is
 * dimension 1. Other inputs are converted to the plain layout.
 */
bool RegisterBlockedParts(const PartFamily& family, const std::vector<Part>& parts);

/*! \brief Let the first outputs of parts replace their first inputs. Return true. */
bool AllowInPlace(const std::vector<const char*>& names);

/*! \brief Describe a run of a part, with the view of its operator. */
PartCall MakeCall(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs, ViewOf view, int64_t block);

/*! \brief FCompute<gpu> that runs kernels over a view, one after the other. */
mxnet::FCompute ComputeOnGpu(std::vector<cuda::PartKernel> kernels, ViewOf view);

}  // namespace tofu::nnvm_layer
