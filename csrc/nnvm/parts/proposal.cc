/*!
 * \file proposal.cc
 * \brief MultiProposal for a part of the samples.
 *
 * Each box begins with the number of its sample. MXNet's kernel counts the samples of a part from
 * zero. So the numbers are overwritten, from `first` on.
 */
#include <cstdlib>
#include <string>
#include <vector>

#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

constexpr char kFirst[] = "first";

/*! \brief MXNet's state, and the samples of the part. */
struct ProposalState {
  mxnet::OpStatePtr stock;
  int64_t first;
  int64_t samples;
};

const nnvm::Op* StockProposal() { return nnvm::Op::Get("_contrib_MultiProposal"); }

/*! \brief The stock parser, which does not know `first`. */
void ParseProposal(NodeAttrs* attrs) {
  NodeAttrs stock = *attrs;
  stock.dict.erase(kFirst);
  stock.parsed.clear();
  StockProposal()->attr_parser(&stock);
  attrs->parsed = stock.parsed;
}

mxnet::OpStatePtr CreateProposal(const NodeAttrs& attrs, mxnet::Context context,
                                 const mxnet::ShapeVector& shapes, const std::vector<int>& types) {
  const auto& create = nnvm::Op::GetAttr<mxnet::FCreateOpState>("FCreateOpState");
  const std::string* first = FindText(attrs, kFirst);
  return mxnet::OpStatePtr::Create<ProposalState>(
      ProposalState{create[StockProposal()](attrs, context, shapes, types),
                    first == nullptr ? 0 : std::atoll(first->c_str()), shapes[0][0]});
}

/*! \brief Write `number` to the first column of some rows, with MXNet's kernel. */
void WriteNumber(const mxnet::FCompute& assign, const OpContext& context, const TBlob& boxes,
                 int64_t row, int64_t rows, int64_t number) {
  NodeAttrs attrs;
  attrs.op = nnvm::Op::Get("_slice_assign_scalar");
  attrs.dict["begin"] = "(" + std::to_string(row) + ", 0)";
  attrs.dict["end"] = "(" + std::to_string(row + rows) + ", 1)";
  attrs.dict["scalar"] = std::to_string(number);
  attrs.op->attr_parser(&attrs);
  assign(attrs, context, {boxes}, {mxnet::kWriteInplace}, {boxes});
}

mxnet::FStatefulCompute ProposeFrom(const mxnet::FStatefulCompute& kernel,
                                    const mxnet::FCompute& assign) {
  return [kernel, assign](const mxnet::OpStatePtr& state, const OpContext& context,
                          const Blobs& inputs, const Requests& requests, const Blobs& outputs) {
    const ProposalState& own = state.get_state<ProposalState>();
    kernel(own.stock, context, inputs, requests, outputs);
    const int64_t rows = outputs[0].shape_[0] / own.samples;
    for (int64_t sample = 0; own.first > 0 && sample < own.samples; ++sample) {
      WriteNumber(assign, context, outputs[0], sample * rows, rows, own.first + sample);
    }
  };
}

void RegisterProposal() {
  const nnvm::Op* stock = StockProposal();
  nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__("_tofu_multi_proposal");
  op.set_num_inputs(3).set_num_outputs(2).set_attr_parser(ParseProposal);
  CopyAttr<nnvm::FNumVisibleOutputs>(stock, &op, "FNumVisibleOutputs");
  CopyAttr<mxnet::FInferShape>(stock, &op, "FInferShape");
  CopyAttr<nnvm::FInferType>(stock, &op, "FInferType");
  CopyAttr<mxnet::FResourceRequest>(stock, &op, "FResourceRequest");
  op.set_attr<mxnet::FCreateOpState>("FCreateOpState", CreateProposal);
  const nnvm::Op* assign = nnvm::Op::Get("_slice_assign_scalar");
  for (const char* device : {"<cpu>", "<gpu>"}) {
    const std::string stateful = std::string("FStatefulCompute") + device;
    const std::string stateless = std::string("FCompute") + device;
    const auto& kernels = nnvm::Op::GetAttr<mxnet::FStatefulCompute>(stateful);
    const auto& assigns = nnvm::Op::GetAttr<mxnet::FCompute>(stateless);
    if (kernels.contains(stock) && assigns.contains(assign)) {
      op.set_attr<mxnet::FStatefulCompute>(stateful, ProposeFrom(kernels[stock], assigns[assign]));
    }
  }
}

[[maybe_unused]] const bool kRegistered = (RegisterProposal(), true);

}  // namespace
}  // namespace tofu::nnvm_layer
