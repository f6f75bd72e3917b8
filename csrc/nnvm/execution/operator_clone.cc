/*!
 * \file operator_clone.cc
 */
#include "nnvm/execution/operator_clone.h"

#include <map>
#include <set>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "nnvm/execution/deconvolution.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::NodeAttrs;
using nnvm::Op;

constexpr char kClonePrefix[] = "_tofu_clone_";
// Parsers ignore attributes with double underscores.
constexpr char kShapesAttribute[] = "__tofu_output_shapes__";
constexpr char kTypesAttribute[] = "__tofu_output_types__";
constexpr char kFreeLayoutAttribute[] = "__tofu_free_layout__";

template <typename T>
void CopyAttrOfDevices(const Op* from, Op* to, const std::string& key) {
  CopyAttr<T>(from, to, key + "<cpu>");
  CopyAttr<T>(from, to, key + "<gpu>");
}

/*! \brief Wrap a kernel so that it writes into views of its outputs, since MXNet keeps views in the
 * plain layout. The kernel runs in training mode. In inference mode it would permanently change the
 * layout of its weight, a shard that is written and fetched later. */
mxnet::FComputeEx WritePlain(const mxnet::FComputeEx& kernel) {
  return [kernel](const NodeAttrs& attrs, const mxnet::OpContext& context,
                  const std::vector<mxnet::NDArray>& inputs,
                  const std::vector<mxnet::OpReqType>& requests,
                  const std::vector<mxnet::NDArray>& outputs) {
    std::vector<mxnet::NDArray> views = outputs;
    for (size_t i = attrs.dict.count(kFreeLayoutAttribute); i < outputs.size(); ++i) {
      const mxnet::TShape row(1, outputs[i].shape().Size());
      views[i] = outputs[i].Reshape(row).Reshape(outputs[i].shape());
    }
    mxnet::OpContext training = context;
    training.is_train = true;
    kernel(attrs, training, inputs, requests, views);
  };
}

/*! \brief List in-place options of SoftmaxOutput's gradient. It may overwrite the softmax, except
 * with out_grad: the kernel then reads the softmax again, to multiply its result by it. */
std::vector<std::pair<int, int>> SoftmaxGradientInPlace(const NodeAttrs& attrs) {
  if (ReadFlag(attrs, "out_grad", false)) return {};
  return FirstInPlace(attrs);
}

/*! \brief List in-place options of a rectifier's gradient. It may overwrite the gradient of the
 * output, except with a learned slope, whose gradient is computed later from the same input. */
std::vector<std::pair<int, int>> RectifierGradientInPlace(const NodeAttrs& attrs) {
  const std::string* type = FindText(attrs, "act_type");
  if (type != nullptr && *type == "prelu") return {};
  return FirstInPlace(attrs);
}

/*! \brief Set in-place options. They differ from MXNet's options for kernels that would overwrite
 * inputs that they still read. */
void SetInPlace(const Op* from, Op* to) {
  const char kInPlace[] = "FInplaceOption";
  if (from->name == "_backward_SoftmaxOutput") {
    to->set_attr<nnvm::FInplaceOption>(kInPlace, SoftmaxGradientInPlace, kAttributeLevel);
  } else if (from->name == "_backward_LeakyReLU") {
    to->set_attr<nnvm::FInplaceOption>(kInPlace, RectifierGradientInPlace, kAttributeLevel);
  } else {
    CopyAttr<nnvm::FInplaceOption>(from, to, kInPlace);
  }
  // MXNet calls it an identity, so it would overwrite a gradient with other readers.
  if (from->name != "_backward_hard_sigmoid") {
    CopyAttr<nnvm::FInplaceIdentity>(from, to, "FInplaceIdentity");
  }
}

/*! \brief Set the list of inputs that the kernel changes. Contrary to MXNet's list, BatchNorm's
 * gradient with global statistics only reads them, so other workers may read them as well. */
void SetMutableInputs(const Op* from, Op* to) {
  const char kMutable[] = "FMutateInputs";
  if (from->name != "_backward_BatchNorm") return CopyAttr<nnvm::FMutateInputs>(from, to, kMutable);
  const nnvm::FMutateInputs& own = Op::GetAttr<nnvm::FMutateInputs>(kMutable)[from];
  to->set_attr<nnvm::FMutateInputs>(
      kMutable,
      [own](const NodeAttrs& attrs) {
        return ReadFlag(attrs, "use_global_stats", false) ? std::vector<uint32_t>() : own(attrs);
      },
      kAttributeLevel);
}

/*! \brief Copy everything that determines how the operator runs. TIsBackward is left out, since
 * MXNet would then infer shapes in its own way. */
void CopyExecution(const Op* from, Op* to) {
  CopyAttrOfDevices<mxnet::FCompute>(from, to, "FCompute");
  if (!NeedsPlainKernel(from)) {
    CopyAttrOfDevices<mxnet::FComputeEx>(from, to, "FComputeEx");
    CopyAttr<mxnet::FInferStorageType>(from, to, "FInferStorageType");
    CopyAttr<bool>(from, to, "TIsMKLDNN");
  }
  CopyAttrOfDevices<mxnet::FStatefulCompute>(from, to, "FStatefulCompute");
  CopyAttrOfDevices<mxnet::FStatefulComputeEx>(from, to, "FStatefulComputeEx");
  CopyAttr<mxnet::FCreateOpState>(from, to, "FCreateOpState");
  CopyAttr<mxnet::FResourceRequest>(from, to, "FResourceRequest");
  CopyAttr<mxnet::FResourceRequestEx>(from, to, "FResourceRequestEx");
  CopyAttr<mxnet::FExecType>(from, to, "FExecType");
  SetMutableInputs(from, to);
  SetInPlace(from, to);
  CopyAttr<nnvm::FIgnoreInputs>(from, to, "FIgnoreInputs");
  CopyAttr<nnvm::FListInputNames>(from, to, "FListInputNames");
  CopyAttr<nnvm::FListOutputNames>(from, to, "FListOutputNames");
  CopyAttr<nnvm::FNumVisibleOutputs>(from, to, "FNumVisibleOutputs");
  CopyAttr<bool>(from, to, "TIsLayerOpBackward");  // links to the state of the forward node
  const char kPlainKernel[] = "FCompute<cpu>";
  if (from->name == "_backward_Deconvolution") {
    const mxnet::FCompute& kernel = Op::GetAttr<mxnet::FCompute>(kPlainKernel)[from];
    to->set_attr<mxnet::FCompute>(kPlainKernel, DeconvolutionGradient(kernel), kAttributeLevel + 1);
  }
  const char kKernel[] = "FComputeEx<cpu>";
  if (ChoosesLayout(from)) {
    const mxnet::FComputeEx& kernel = Op::GetAttr<mxnet::FComputeEx>(kKernel)[from];
    to->set_attr<mxnet::FComputeEx>(kKernel, WritePlain(kernel), kAttributeLevel + 1);
  }
}

const std::string& TextOf(const NodeAttrs& attrs, const char* key) {
  const std::string* found = FindText(attrs, key);
  CHECK(found != nullptr) << attrs.name << ": " << attrs.op->name << " has no attribute " << key
                          << "; such nodes are made by tofu.partition alone";
  return *found;
}

/*! \brief Read one value per output from a node's attribute. Each value is followed by ";". */
template <typename T>
void ReadOutputs(const NodeAttrs& attrs, const char* key, std::vector<T>* outputs) {
  std::istringstream stream(TextOf(attrs, key));
  for (T& output : *outputs) {
    char separator = 0;
    CHECK(stream >> output >> separator && separator == ';')
        << attrs.name << ": " << key << " has not the " << outputs->size()
        << " values of its outputs: " << stream.str();
  }
}

bool InferCloneShape(const NodeAttrs& attrs, mxnet::ShapeVector* inputs,
                     mxnet::ShapeVector* outputs) {
  ReadOutputs(attrs, kShapesAttribute, outputs);
  return AreKnown(*inputs);
}

bool InferCloneType(const NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
  ReadOutputs(attrs, kTypesAttribute, outputs);
  return std::find(inputs->begin(), inputs->end(), -1) == inputs->end();
}

}  // namespace

bool NeedsPlainKernel(const Op* op) {
  return op->name == "_backward_Pooling" || op->name == "_backward_Deconvolution";
}

bool ChoosesLayout(const Op* op) {
  static const std::unordered_set<std::string> kNames = {
      "Convolution", "_backward_Convolution", "Deconvolution", "_backward_FullyConnected"};
  return kNames.count(op->name) != 0;
}

void LetChooseLayout(NodeAttrs* attrs) { attrs->dict[kFreeLayoutAttribute] = "1"; }

bool NeedsShapes(const Op* op) {
  return Op::GetAttr<nnvm::TIsBackward>("TIsBackward").get(op, false) ||
         !Op::GetAttr<mxnet::FInferShape>("FInferShape").contains(op) ||
         (op->get_num_inputs == nullptr && op->num_inputs == 0);
}

bool NeedsClone(const Op* op) { return NeedsShapes(op) || ChoosesLayout(op); }

const Op* CloneOperator(const Op* op) {
  const std::string name = kClonePrefix + op->name;
  if (const Op* existing = dmlc::Registry<Op>::Find(name)) return existing;
  Op& clone = dmlc::Registry<Op>::Get()->__REGISTER_OR_GET__(name);
  clone.num_inputs = op->num_inputs;
  clone.num_outputs = op->num_outputs;
  clone.get_num_inputs = op->get_num_inputs;
  clone.get_num_outputs = op->get_num_outputs;
  clone.attr_parser = op->attr_parser;
  CopyExecution(op, &clone);
  if (NeedsShapes(op)) {
    clone.set_attr<mxnet::FInferShape>("FInferShape", InferCloneShape, kAttributeLevel);
    clone.set_attr<nnvm::FInferType>("FInferType", InferCloneType, kAttributeLevel);
  } else {
    CopyAttr<mxnet::FInferShape>(op, &clone, "FInferShape");
    CopyAttr<nnvm::FInferType>(op, &clone, "FInferType");
  }
  return &clone;
}

const Op* OriginalOperator(const Op* op) {
  const std::string prefix = kClonePrefix;
  if (op->name.compare(0, prefix.size(), prefix) != 0) return op;
  return Op::Get(op->name.substr(prefix.size()));
}

namespace {

bool FixesGamma(const NodeAttrs& attrs) {
  const std::string* text = FindText(attrs, "fix_gamma");
  return text == nullptr || *text == "True" || *text == "1";
}

}  // namespace

std::vector<uint32_t> ListSetInputs(const NodeAttrs& attrs) {
  static const std::set<std::string> kNames = {"BatchNorm", "_tofu_batch_norm_apply",
                                               "_tofu_batch_norm_global"};
  constexpr uint32_t kGamma = 1;
  if (attrs.op == nullptr || kNames.count(attrs.op->name) == 0 || !FixesGamma(attrs)) return {};
  return {kGamma};
}

std::vector<uint32_t> ListSpoiledInputs(const NodeAttrs& attrs) {
  static const std::map<std::string, uint32_t> kInputs = {
      {"BatchNorm_v1", 1},                  // gamma, set to ones if it is fixed
      {"_adamw_update", 1},                 // the gradient, scaled in place
      {"_backward_linalg_det", 2},          // the triangular factors, inverted in place
      {"_backward_linalg_slogdet", 3},      // the same
      {"_backward_RNN", 4},                 // the output's gradient, reused between layers
      {"_backward_SpatialTransformer", 2},  // positions, overwritten by gradients
  };
  if (attrs.op == nullptr) return {};
  const std::string& name = OriginalOperator(attrs.op)->name;
  const auto found = kInputs.find(name);
  if (found == kInputs.end()) return {};
  if (name == "BatchNorm_v1" && !FixesGamma(attrs)) return {};
  const std::string* mode = FindText(attrs, "mode");
  if (mode != nullptr && *mode == "lstm") return {};  // RNN in mode LSTM does not
  return {found->second};
}

void SetCloneOutputs(const std::vector<Extents>& shapes, const std::vector<int>& types,
                     NodeAttrs* attrs) {
  std::ostringstream shape_text;
  for (const Extents& extents : shapes) shape_text << ToShape(extents) << ';';
  std::ostringstream type_text;
  for (int type : types) type_text << type << ';';
  attrs->dict[kShapesAttribute] = shape_text.str();
  attrs->dict[kTypesAttribute] = type_text.str();
}

}  // namespace tofu::nnvm_layer
