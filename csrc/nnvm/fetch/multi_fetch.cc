/*!
 * \file multi_fetch.cc
 * \brief Registration of _tofu_multi_fetch.
 */
#include "nnvm/fetch/multi_fetch.h"

#include "nnvm/fetch/multi_fetch_gpu.h"
#include "nnvm/fetch/multi_fetch_kernel.h"

namespace tofu::nnvm_layer {

const char kMultiFetchName[] = "_tofu_multi_fetch";

namespace {

using nnvm::NodeAttrs;

/*! \brief Check that every source box is inside its input. */
void CheckSources(const NodeAttrs& attrs, const mxnet::ShapeVector& inputs) {
  for (const Piece& piece : MultiFetchParamOf(attrs).pieces) {
    for (const Source& source : piece.sources) {
      const mxnet::TShape& shape = inputs[source.input];
      if (!mxnet::shape_is_known(shape)) continue;
      CHECK_EQ(shape.ndim(), static_cast<int>(source.begin.size()))
          << attrs.name << ": input " << source.input << " has shape " << shape;
      for (int d = 0; d < shape.ndim(); ++d) {
        CHECK_LE(source.begin[d] + source.ExtentAlong(d, piece.box), shape[d])
            << attrs.name << " reads outside of input " << source.input << " of shape " << shape
            << " in dimension " << d;
      }
    }
  }
}

bool InferShape(const NodeAttrs& attrs, mxnet::ShapeVector* inputs, mxnet::ShapeVector* outputs) {
  const MultiFetchParam& param = MultiFetchParamOf(attrs);
  mxnet::TShape& output = outputs->at(0);
  CHECK(!mxnet::shape_is_known(output) || output == param.shape)
      << attrs.name << " has shape " << param.shape << ", its reader expects " << output;
  output = param.shape;
  CheckSources(attrs, *inputs);
  return AreKnown(*inputs);
}

bool InferType(const NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
  int type = MultiFetchParamOf(attrs).dtype;
  for (int given : {inputs->empty() ? -1 : inputs->front(), outputs->at(0)}) {
    if (type == -1) type = given;
  }
  if (type == -1) return false;
  for (std::vector<int>* types : {inputs, outputs}) {
    for (int& given : *types) {
      CHECK(given == -1 || given == type)
          << attrs.name << " has type code " << type << ", but is given or read as " << given;
      given = type;
    }
  }
  return true;
}

}  // namespace

const MultiFetchParam& MultiFetchParamOf(const NodeAttrs& attrs) {
  return nnvm::get<MultiFetchParam>(attrs.parsed);
}

const nnvm::Op* MultiFetchOp() {
  static const nnvm::Op* op = nnvm::Op::Get(kMultiFetchName);
  return op;
}

NNVM_REGISTER_OP(_tofu_multi_fetch)
    .describe("Assemble one region of a tensor out of shards that may lie on other devices.")
    .set_num_inputs([](const NodeAttrs& attrs) {
      return static_cast<uint32_t>(MultiFetchParamOf(attrs).num_args);
    })
    .set_num_outputs(1)
    .set_attr_parser(ParseMultiFetch)
    .set_attr<std::string>("key_var_num_args", "num_args")
    .set_attr<mxnet::FInferShape>("FInferShape", InferShape)
    .set_attr<nnvm::FInferType>("FInferType", InferType)
    .set_attr<mxnet::FCompute>("FCompute<cpu>", ComputeMultiFetch)
    .set_attr<mxnet::FCompute>("FCompute<gpu>", ComputeMultiFetchOnGpu)
    .add_argument("data", "NDArray-or-Symbol[]", "entries that hold parts of the region")
    .add_argument("shape", "Shape(tuple)", "shape of the region")
    .add_argument("pieces", "string",
                  "begin:extent:input@begin+input@begin...;..., or input@begin@along")
    .add_argument("dtype", "int", "type code of the region, -1 for that of the inputs")
    .add_argument("fill", "double", "value of the cells in no piece")
    .add_argument("reducer", "int",
                  "of the sources of a piece: 0 sum, 1 maximum, 2 minimum, 3 product")
    .add_argument("tensor", "string", "name of the tensor that this is a region of")
    .add_argument("worker", "int", "the worker that reads the region")
    .add_argument("phase", "int", "0 forward, 1 backward, 2 update");

}  // namespace tofu::nnvm_layer
