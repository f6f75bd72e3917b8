/*!
 * \file abi_check.cc
 * \brief The ABI check, which runs first when the module is loaded. gen_compat.py lists the
 * differences.
 */
#include "nnvm/base/abi_check.h"

#include <stdexcept>
#include <unordered_map>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {
namespace {

static_assert(sizeof(std::unordered_map<std::string, std::string>) == 48,
              "the headers that gen_compat.py writes must come first on the include path");

constexpr int kLibraryVersion = 10901;

void Require(bool agrees, const std::string& what) {
  if (agrees) return;
  throw std::runtime_error("tofu._mxnet and the loaded libmxnet.so differ in " + what +
                           ": install mxnet==1.9.1 and build Tofu again");
}

/*! \brief Read a node of libmxnet.so through our headers. */
void CheckNodeLayout() {
  const nnvm::Symbol made = nnvm::Symbol::CreateVariable("abi_probe");
  Require(made.outputs.size() == 1 && made.outputs[0].node != nullptr, "nnvm::Symbol");
  const nnvm::Node& node = *made.outputs[0].node;
  Require(node.op() == nullptr && node.attrs.name == "abi_probe" && node.attrs.dict.empty() &&
              node.inputs.empty() && node.control_deps.empty() && node.info.empty(),
          "the layout of nnvm::Node");
}

/*! \brief Call functions of libmxnet.so with our maps and shapes. */
void CheckFunctionConvention() {
  nnvm::NodeAttrs attrs;
  attrs.op = nnvm::Op::Get("FullyConnected");
  attrs.name = "abi_probe";
  attrs.dict["num_hidden"] = "7";
  attrs.op->attr_parser(&attrs);
  mxnet::ShapeVector inputs(3);
  mxnet::ShapeVector outputs(1);
  inputs[0] = mxnet::TShape({5, 3});
  const auto& infer = nnvm::Op::GetAttr<mxnet::FInferShape>("FInferShape")[attrs.op];
  infer(attrs, &inputs, &outputs);
  Require(outputs[0] == mxnet::TShape({5, 7}) && inputs[1] == mxnet::TShape({7, 3}),
          "the calling convention of std::function");
}

/*! \brief Have libmxnet.so call our function over a graph that both read. */
void CheckPassConvention() {
  const nnvm::Symbol probe = nnvm::Symbol::CreateVariable("abi_probe");
  nnvm::Graph graph;
  graph.outputs = probe.outputs;
  graph = mxnet::exec::InferShape(std::move(graph), {mxnet::TShape({2, 3})}, "__shape__");
  const auto& shapes = graph.GetAttr<mxnet::ShapeVector>("shape");
  Require(shapes.size() == 1 && shapes[0] == mxnet::TShape({2, 3}), "the layout of nnvm::Graph");
}

}  // namespace

void CheckAbi() {
  Require(MXNET_VERSION == kLibraryVersion, "their version");
  CheckNodeLayout();
  CheckFunctionConvention();
  CheckPassConvention();
}

}  // namespace tofu::nnvm_layer
