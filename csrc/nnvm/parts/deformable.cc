/*!
 * \file deformable.cc
 * \brief DeformableConvolution and its gradient for a part of the output's rows or columns.
 *
 * MXNet's kernels compute as many rows as the offsets have. The padding determines where the first
 * row is. So a part gets the padding minus the number of rows before it, which is usually negative.
 * MXNet would infer the number of rows from data and padding, and refuse a part. Here, the offsets
 * determine it.
 */
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

constexpr int kRank = 4;   // of all tensors but the bias
constexpr int kSpace = 2;  // dimensions, after two others
constexpr int kUnknownType = -1;

using Space = std::vector<int64_t>;

const nnvm::Op* StockForward() { return nnvm::Op::Get("_contrib_DeformableConvolution"); }

const nnvm::Op* StockBackward() {
  return nnvm::Op::Get("_backward__contrib_DeformableConvolution");
}

/*! \brief Read an attribute like "(3, 3)"; `otherwise` in both dimensions if it is missing. */
Space ReadSpace(const NodeAttrs& attrs, const char* key, int64_t otherwise) {
  mxnet::TShape values(0, -1);
  const std::string* found = FindText(attrs, key);
  if (found != nullptr) {
    std::istringstream stream(*found);
    CHECK(stream >> values) << attrs.name << ": attribute " << key << " is \"" << *found
                            << "\", no tuple";
  }
  CHECK(values.ndim() == 0 || values.ndim() == kSpace)
      << attrs.name << ": attribute " << key << " has " << values.ndim() << " values, not "
      << kSpace;
  return values.ndim() == 0 ? Space(kSpace, otherwise) : Space(values.begin(), values.end());
}

/*! \brief Create MXNet's state, which holds only attributes. MXNet requires shapes of a whole
 * tensor, so this passes the smallest data that fits one window. */
mxnet::OpStatePtr CreateState(const NodeAttrs& attrs, mxnet::Context context, mxnet::TShape data,
                              mxnet::TShape offset, const mxnet::TShape& weight, int type) {
  const Space kernel = ReadSpace(attrs, "kernel", 1), stride = ReadSpace(attrs, "stride", 1);
  const Space dilate = ReadSpace(attrs, "dilate", 1), pad = ReadSpace(attrs, "pad", 0);
  for (int d = 0; d < kSpace; ++d) {
    CHECK_GT(stride[d], 0) << attrs.name << ": a stride of " << stride[d];
    const int64_t window = dilate[d] * (kernel[d] - 1) + 1 - 2 * pad[d];
    data[2 + d] = std::max<int64_t>(1, window);
    offset[2 + d] = (data[2 + d] - window) / stride[d] + 1;
  }
  mxnet::ShapeVector shapes = {data, offset, weight, mxnet::TShape(1, weight[0])};
  shapes.resize(StockForward()->get_num_inputs(attrs));  // without a bias there are three
  const std::vector<int> types(shapes.size(), type);
  const auto& create = nnvm::Op::GetAttr<mxnet::FCreateOpState>("FCreateOpState");
  return create[StockForward()](attrs, context, shapes, types);
}

mxnet::OpStatePtr CreateForward(const NodeAttrs& attrs, mxnet::Context context,
                                const mxnet::ShapeVector& shapes, const std::vector<int>& types) {
  return CreateState(attrs, context, shapes[0], shapes[1], shapes[2], types[0]);
}

mxnet::OpStatePtr CreateBackward(const NodeAttrs& attrs, mxnet::Context context,
                                 const mxnet::ShapeVector& shapes, const std::vector<int>& types) {
  return CreateState(attrs, context, shapes[1], shapes[2], shapes[3], types[0]);
}

int64_t ReadNumber(const NodeAttrs& attrs, const char* key, int64_t otherwise) {
  const std::string* found = FindText(attrs, key);
  return found == nullptr ? otherwise : std::atoll(found->c_str());
}

void CheckShape(const NodeAttrs& attrs, const char* name, const mxnet::TShape& found,
                const mxnet::TShape& expected) {
  CHECK(found == expected) << attrs.name << ": " << name << " has shape " << found << ", and "
                           << expected << " is expected";
}

/*! \brief Check data, offset and weight, the inputs from `first` on. Any number of rows and columns
 * of offsets is valid. Return the output's shape, or none if one is unknown. */
mxnet::TShape InferOutput(const NodeAttrs& attrs, const mxnet::ShapeVector& inputs, size_t first) {
  for (size_t i = first; i < first + 3; ++i) {
    if (!mxnet::shape_is_known(inputs[i])) return mxnet::TShape();
    CHECK_EQ(inputs[i].ndim(), kRank) << attrs.name << ": input " << i << " has shape " << inputs[i]
                                      << ", and four dimensions are expected";
  }
  const mxnet::TShape &data = inputs[first], &offset = inputs[first + 1];
  const Space kernel = ReadSpace(attrs, "kernel", 1);
  const int64_t cells = kernel[0] * kernel[1] * ReadNumber(attrs, "num_deformable_group", 1);
  const int64_t filters = ReadNumber(attrs, "num_filter", 0);
  const int64_t channels = data[1] / ReadNumber(attrs, "num_group", 1);
  CheckShape(attrs, "offset", offset, mxnet::TShape({data[0], 2 * cells, offset[2], offset[3]}));
  CheckShape(attrs, "weight", inputs[first + 2],
             mxnet::TShape({filters, channels, kernel[0], kernel[1]}));
  return mxnet::TShape({data[0], filters, offset[2], offset[3]});
}

/*! \brief data, offset, weight, bias -> output, with the rows and columns of the offsets */
bool InferForward(const NodeAttrs& attrs, mxnet::ShapeVector* inputs, mxnet::ShapeVector* outputs) {
  outputs->at(0) = InferOutput(attrs, *inputs, 0);
  if (!mxnet::shape_is_known(outputs->at(0))) return false;
  if (inputs->size() <= 3) return true;
  if (!mxnet::shape_is_known(inputs->at(3))) return false;
  CheckShape(attrs, "bias", inputs->at(3), mxnet::TShape(1, outputs->at(0)[1]));
  return true;
}

/*! \brief d_out, data, offset, weight -> their gradients, and the bias's */
bool InferBackward(const NodeAttrs& attrs, mxnet::ShapeVector* inputs,
                   mxnet::ShapeVector* outputs) {
  const mxnet::TShape output = InferOutput(attrs, *inputs, 1);
  if (!mxnet::shape_is_known(output) || !mxnet::shape_is_known(inputs->at(0))) return false;
  CheckShape(attrs, "the output's gradient", inputs->at(0), output);
  std::copy(inputs->begin() + 1, inputs->end(), outputs->begin());
  if (outputs->size() > 3) outputs->at(3) = mxnet::TShape(1, output[1]);
  return true;
}

bool InferType(const NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
  for (int type : *inputs) {
    if (type == kUnknownType) return false;
    CHECK_EQ(type, inputs->at(0)) << attrs.name << ": inputs have different types";
  }
  outputs->assign(outputs->size(), inputs->at(0));
  return true;
}

/*! \brief Register an operator with the kernels of a stock one and its own state. */
nnvm::Op& RegisterDeformable(const char* name, const nnvm::Op* stock, mxnet::FCreateOpState create,
                             mxnet::FInferShape infer_shape) {
  nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name);
  op.set_attr_parser(StockForward()->attr_parser);
  op.set_num_outputs(stock->get_num_outputs);
  op.set_attr<mxnet::FCreateOpState>("FCreateOpState", create);
  op.set_attr<mxnet::FInferShape>("FInferShape", infer_shape);
  op.set_attr<nnvm::FInferType>("FInferType", InferType);
  CopyAttr<mxnet::FResourceRequest>(stock, &op, "FResourceRequest");
  CopyAttr<mxnet::FExecType>(stock, &op, "FExecType");
  for (const char* key : {"FStatefulCompute<cpu>", "FStatefulCompute<gpu>"}) {
    CopyAttr<mxnet::FStatefulCompute>(stock, &op, key);
  }
  return op;
}

void RegisterParts() {
  RegisterDeformable("_tofu_deformable_convolution", StockForward(), CreateForward, InferForward)
      .set_num_inputs(StockForward()->get_num_inputs);
  RegisterDeformable("_tofu_deformable_convolution_backward", StockBackward(), CreateBackward,
                     InferBackward)
      .set_num_inputs(4);
}

[[maybe_unused]] const bool kRegistered = (RegisterParts(), true);

}  // namespace
}  // namespace tofu::nnvm_layer
