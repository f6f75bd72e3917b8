/*!
 * \file lowered_operator.h
 * \brief What the operators that take the place of a stock one have in common: attributes
 * and signatures.
 *
 * Such operators compute the pieces of a stock operator whose parts do not come together by sums
 * and concatenation alone (BatchNorm split by batch, say): sums over a part, then the rest from
 * whole sums.
 */
#ifndef TOFU_NNVM_PARTS_LOWERED_OPERATOR_H_
#define TOFU_NNVM_PARTS_LOWERED_OPERATOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/parts/dimension_view.h"

namespace tofu {
namespace nnvm_layer {

// What the kernels of all of them are written with.
using cuda::PartLoop;
using mxnet::OpContext;
using mxnet::TBlob;
using nnvm::NodeAttrs;
using Blobs = std::vector<TBlob>;
using Requests = std::vector<mxnet::OpReqType>;

/*! \brief FInplaceOption: the first output may take the place of the first input. */
inline std::vector<std::pair<int, int>> FirstInPlace(const NodeAttrs&) { return {{0, 0}}; }

/*! \brief Attributes of the stock operators, under their names and with their defaults, and
 * `count`.
 */
struct LoweredParam {
  int axis = 1;
  int64_t count = 1;  // how many cells of the whole tensor a sum is over
  double eps = 0;
  double momentum = 0.9f;  // MXNet holds it in single precision
  double temperature = 1;
  cuda::Window window = {1, 1, 0, 0, 1, 0};
  cuda::Labels labels = {1, 0, -1, 0, 1, 0};
  cuda::Positions positions = {0, 1, 1, 0, cuda::kClipped, 0, 1};
  double valid_thresh = 0;
  double on_value = 1;   // of a cell whose position is the one that is meant
  double off_value = 0;  // of the others
  bool keepdims = false;
  bool fix_gamma = true;
  bool use_global_stats = false;
};

/*! \brief An attribute as MXNet reads a bool, `otherwise` where it is not given. */
bool ReadFlag(const NodeAttrs& attrs, const char* key, bool otherwise);

/*! \brief The parsed attributes of a node of such an operator. */
const LoweredParam& LoweredParamOf(const nnvm::NodeAttrs& attrs);

/*!
 * \brief Shapes and types of an operator, one letter for each tensor:
 *  d  like the data;
 *  v  a vector along `axis`, of the data's type;
 *  r  the same, in single precision for data in half precision;
 *  V  the same in double precision;
 *  l  like the data, but with extent 1 in dimension `axis`;
 *  L  the same in double precision;
 *  n  a number for each line, of the data's type, in any shape that is given;
 *  N  one number in double precision;
 *  i  indices, of any shape and type that are given;
 *  t  of the data's type, and the shape that `result` makes of those of the data and the indices.
 */
struct Signature {
  const char* inputs;
  const char* outputs;
  mxnet::TShape (*result)(const LoweredParam&, const mxnet::TShape& data,
                          const mxnet::TShape& indices) = nullptr;
};

/*! \brief What kernels go over, and which positions its indices mean if there are any. */
struct PartView {
  DimensionView loop;
  cuda::Positions positions;
};

using ViewOf = PartView (*)(const LoweredParam&, const Blobs& inputs, const Blobs& outputs);

/*! \brief The first input, along its dimension `axis`. */
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
  /*! \brief Writes value(line, position, cell) to every cell of the first output. */
  template <typename DType, typename Value>
  void MapCells(const Value& value) const {
    nnvm_layer::MapCells(view, requests[0], outputs[0].dptr<DType>(), value);
  }
  /*! \brief Writes value(n) to every element of output `i`, a small tensor. */
  template <typename DType, typename Value>
  void MapElements(size_t i, const Value& value) const {
    nnvm_layer::MapElements<DType>(requests[i], outputs[i], value);
  }
  void StoreSums(size_t i, const std::vector<double>& sums) const {
    MapElements<double>(i, [&](size_t n) { return sums[n]; });
  }
};

/*! \brief What operators of one file of kernels share: the file, and defaults of attributes. */
struct PartFamily {
  const char* kernel_file;
  int axis;
  double eps = 0;
  bool holds_eps_as_float = false;
};

/*! \brief An operator. Its GPU kernel has its name, and runs `loop`, unless it lists others. */
struct Part {
  const char* name;
  Signature signature;
  void (*compute)(const PartCall&);
  PartLoop loop;
  ViewOf view = ViewData;
  std::vector<cuda::PartKernel> kernels = {};
};

/*! \brief Registers operators for the CPU and for GPUs. Returns true. */
bool RegisterParts(const PartFamily& family, const std::vector<Part>& parts);

/*! \brief Registers operators whose data is taken on CPUs as oneDNN lays it out. Returns true.
 *
 * Tensors with letter d are in blocks (DimensionView::block) if all inputs with it are and `axis`
 * is dimension 1. Other inputs are converted to the plain layout.
 */
bool RegisterBlockedParts(const PartFamily& family, const std::vector<Part>& parts);

/*! \brief Lets the first outputs of operators take the place of their first inputs. Returns true.
 */
bool AllowInPlace(const std::vector<const char*>& names);

/*! \brief The call of a kernel over `block` neighbours, with the view of its operator. */
PartCall MakeCall(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                  const Requests& requests, const Blobs& outputs, ViewOf view, int64_t block);

/*! \brief FCompute<gpu> of an operator that runs these kernels over a view, one after the other. */
mxnet::FCompute ComputeOnGpu(std::vector<cuda::PartKernel> kernels, ViewOf view);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_PARTS_LOWERED_OPERATOR_H_
