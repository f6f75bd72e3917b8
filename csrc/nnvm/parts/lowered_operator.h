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

#include <utility>
#include <vector>

#include "cuda/launch_part.h"
#include "nnvm/base/mxnet_api.h"
#include "nnvm/parts/dimension_view.h"

namespace tofu::nnvm_layer {

// Used by all kernels.
using cuda::PartArguments;
using cuda::PartLoop;
using mxnet::OpContext;
using mxnet::TBlob;
using nnvm::NodeAttrs;
using Blobs = std::vector<TBlob>;
using Requests = std::vector<mxnet::OpReqType>;

/*! \brief FInplaceOption: the first output may replace the first input. */
inline std::vector<std::pair<int, int>> FirstInPlace(const NodeAttrs&) { return {{0, 0}}; }

/*! \brief Attributes of a part: those that kernels read, and two that determine shapes. */
struct LoweredParam {
  int axis = 1;
  bool keepdims = false;
  PartArguments arguments = {};
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

/*! \brief Return what a kernel loops over, and describe its indices, if any. */
using ViewOf = DimensionView (*)(int axis, const Blobs& inputs, const Blobs& outputs,
                                 cuda::Positions* positions);

/*! \brief The first input along dimension `axis`. */
inline DimensionView ViewData(int axis, const Blobs& inputs, const Blobs&, cuda::Positions*) {
  return DimensionView(inputs[0].shape_, axis);
}

/*! \brief Describe indices into the part of a dimension in `view`. If they are fewer than the
 * lines, adjacent lines share an index. */
void DescribeIndices(const DimensionView& view, const TBlob& indices, cuda::Positions* positions);

/*! \brief Properties of all parts of one kernel file: defaults of attributes. */
struct PartFamily {
  const char* kernel_file;
  int axis;
  double eps = 0;
  bool holds_eps_as_float = false;
};

/*! \brief The function that computes a part on CPUs, for data of MXNet's type code `type`, and the
 * loop of its GPU kernel. See part_loops.h. */
struct PartMethod {
  void (*compute)(const PartArguments&, const DimensionView&, int type);
  PartLoop loop;
};

/*! \brief A part of an operator. Its GPU kernel has its name, unless `kernels` lists others. */
struct Part {
  const char* name;
  Signature signature;
  PartMethod method;
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

/*! \brief The arguments of a part's kernels, and what they loop over. */
struct PartRun {
  PartArguments arguments;
  DimensionView view;
};

PartRun MakeRun(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                const Requests& requests, const Blobs& outputs, ViewOf view_of);

}  // namespace tofu::nnvm_layer
