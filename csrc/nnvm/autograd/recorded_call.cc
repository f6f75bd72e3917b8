/*!
 * \file recorded_call.cc
 */
#include "nnvm/autograd/recorded_call.h"

#include <mxnet/imperative.h>

#include <utility>

namespace tofu::nnvm_layer {
namespace {

/*! \brief Parameters of the call and of its backward operator. */
struct CallShape {
  uint32_t num_inputs = 0;
  mxnet::ShapeVector output_shapes;
  std::vector<int> output_types;
};

const CallShape& ShapeOf(const nnvm::NodeAttrs& attrs) {
  return nnvm::get<CallShape>(attrs.parsed);
}

uint32_t CountInputs(const nnvm::NodeAttrs& attrs) { return ShapeOf(attrs).num_inputs; }

uint32_t CountOutputs(const nnvm::NodeAttrs& attrs) {
  return static_cast<uint32_t>(ShapeOf(attrs).output_shapes.size());
}

std::vector<nnvm::NodeEntry> MakeBackward(const nnvm::ObjectPtr& call,
                                          const std::vector<nnvm::NodeEntry>& heads) {
  nnvm::ObjectPtr backward = nnvm::Node::Create();
  backward->attrs.op = nnvm::Op::Get("_tofu_recorded_call_backward");
  backward->attrs.name = call->attrs.name + "_backward";
  backward->attrs.parsed = ShapeOf(call->attrs);
  backward->control_deps.push_back(call);
  backward->inputs = heads;
  std::vector<nnvm::NodeEntry> gradients;
  for (uint32_t i = 0; i < CountInputs(call->attrs); ++i) gradients.emplace_back(backward, i, 0);
  return gradients;
}

void RefuseForward(const mxnet::OpStatePtr&, const mxnet::OpContext&,
                   const std::vector<mxnet::NDArray>&, const std::vector<mxnet::OpReqType>&,
                   const std::vector<mxnet::NDArray>&) {
  LOG(FATAL) << "A call of a partitioned block is differentiated once: grad(create_graph=True) and "
                "get_symbol() do not reach through it";
}

mxnet::OpStatePtr RefuseState(const nnvm::NodeAttrs&, mxnet::Context, const mxnet::ShapeVector&,
                              const std::vector<int>&) {
  LOG(FATAL) << "A call of a partitioned block cannot be made from its symbol";
  return mxnet::OpStatePtr();
}

void RunBackward(const mxnet::OpStatePtr& state, const mxnet::OpContext&,
                 const std::vector<mxnet::NDArray>& heads,
                 const std::vector<mxnet::OpReqType>& requests,
                 const std::vector<mxnet::NDArray>& gradients) {
  state.get_state<RecordedBackward>()(heads, requests, gradients);
}

bool InferDenseStorage(const nnvm::NodeAttrs&, const int, mxnet::DispatchMode* mode,
                       std::vector<int>* inputs, std::vector<int>* outputs) {
  for (std::vector<int>* types : {inputs, outputs}) {
    for (int& type : *types) {
      if (type == mxnet::kUndefinedStorage) type = mxnet::kDefaultStorage;
      if (type != mxnet::kDefaultStorage) return false;
    }
  }
  *mode = mxnet::DispatchMode::kFComputeEx;
  return true;
}

bool InferShapes(const nnvm::NodeAttrs& attrs, mxnet::ShapeVector*, mxnet::ShapeVector* outputs) {
  *outputs = ShapeOf(attrs).output_shapes;
  return true;
}

bool InferTypes(const nnvm::NodeAttrs& attrs, std::vector<int>*, std::vector<int>* outputs) {
  *outputs = ShapeOf(attrs).output_types;
  return true;
}

std::vector<mxnet::NDArray*> Arrays(const std::vector<ObjectHandle>& handles) {
  std::vector<mxnet::NDArray*> arrays;
  for (ObjectHandle handle : handles) arrays.push_back(ArrayOf(handle));
  return arrays;
}

}  // namespace

NNVM_REGISTER_OP(_tofu_recorded_call)
    .describe("A call of a partitioned block, as autograd has it.")
    .set_num_inputs(CountInputs)
    .set_num_outputs(CountOutputs)
    .set_attr<mxnet::FInferShape>("FInferShape", InferShapes)
    .set_attr<nnvm::FInferType>("FInferType", InferTypes)
    .set_attr<mxnet::FCreateOpState>("FCreateOpState", RefuseState)
    .set_attr<nnvm::FGradient>("FGradient", MakeBackward)
    .set_attr<mxnet::FStatefulComputeEx>("FStatefulComputeEx<cpu>", RefuseForward)
    .set_attr<mxnet::FStatefulComputeEx>("FStatefulComputeEx<gpu>", RefuseForward)
    .set_attr<mxnet::FInferStorageType>("FInferStorageType", InferDenseStorage);

NNVM_REGISTER_OP(_tofu_recorded_call_backward)
    .describe("The backward of a partitioned block's call.")
    .set_num_inputs(CountOutputs)
    .set_num_outputs(CountInputs)
    .set_attr<bool>("TIsBackward", true)
    .set_attr<bool>("TIsLayerOpBackward", true)
    // The thread that issues the operator runs it, like operators with subgraphs.
    .set_attr<mxnet::FExecType>("FExecType",
                                [](const nnvm::NodeAttrs&) {
                                  return mxnet::ExecType::kSubgraphExec;
                                })
    .set_attr<mxnet::FStatefulComputeEx>("FStatefulComputeEx<cpu>", RunBackward)
    .set_attr<mxnet::FStatefulComputeEx>("FStatefulComputeEx<gpu>", RunBackward)
    .set_attr<mxnet::FInferStorageType>("FInferStorageType", InferDenseStorage);

void RecordCall(const std::vector<ObjectHandle>& inputs, const std::vector<ObjectHandle>& outputs,
                RecordedBackward backward) {
  CHECK(mxnet::Imperative::Get()->is_recording()) << "Autograd does not record";
  const std::vector<mxnet::NDArray*> results = Arrays(outputs);
  CallShape shape;
  shape.num_inputs = static_cast<uint32_t>(inputs.size());
  for (const mxnet::NDArray* result : results) {
    shape.output_shapes.push_back(result->shape());
    shape.output_types.push_back(result->dtype());
  }
  nnvm::NodeAttrs attrs;
  attrs.op = nnvm::Op::Get("_tofu_recorded_call");
  attrs.parsed = std::move(shape);
  mxnet::Imperative::Get()->RecordOp(
      std::move(attrs), Arrays(inputs), results,
      mxnet::OpStatePtr::Create<RecordedBackward>(std::move(backward)));
}

bool NeedsGradient(ObjectHandle array) {
  return !mxnet::Imperative::AGInfo::IsNone(*ArrayOf(array));
}

}  // namespace tofu::nnvm_layer
