/*!
 * \file lowered_operator.cc
 */
#include "nnvm/parts/lowered_operator.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "nnvm/base/gpu_call.h"
#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/part_gpu.h"

namespace tofu {
namespace nnvm_layer {

bool ReadFlag(const NodeAttrs& attrs, const char* key, bool otherwise) {
  const auto found = attrs.dict.find(key);
  if (found == attrs.dict.end()) return otherwise;
  const std::string& text = found->second;
  if (text == "True" || text == "true" || text == "1") return true;
  CHECK(text == "False" || text == "false" || text == "0")
      << attrs.name << ": attribute " << key << " is \"" << text << "\", neither True nor False";
  return false;
}

namespace {

constexpr int kUnknownType = -1;

double ReadNumber(const NodeAttrs& attrs, const char* key, double otherwise) {
  const auto found = attrs.dict.find(key);
  if (found == attrs.dict.end() || found->second == "None") return otherwise;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  CHECK(!found->second.empty() && *end == '\0')
      << attrs.name << ": attribute " << key << " is \"" << found->second << "\", no number";
  return value;
}

/*! \brief What indices mean, by the attribute `mode`: that of the stock operators, and two more. */
int ReadMeaning(const NodeAttrs& attrs) {
  const auto found = attrs.dict.find("mode");
  if (found == attrs.dict.end() || found->second == "clip") return cuda::kClipped;
  const std::string& mode = found->second;
  CHECK(mode == "wrap" || mode == "exact" || mode == "length")
      << attrs.name << ": attribute mode is \"" << mode
      << "\", none of clip, wrap, exact and length";
  return mode == "wrap" ? cuda::kWrapped : mode == "exact" ? cuda::kExact : cuda::kLength;
}

void Parse(NodeAttrs* attrs, int default_axis, double default_eps) {
  LoweredParam param;
  param.axis = static_cast<int>(ReadNumber(*attrs, "axis", default_axis));
  param.count = static_cast<int64_t>(ReadNumber(*attrs, "count", 1));
  param.eps = ReadNumber(*attrs, "eps", default_eps);
  param.momentum = static_cast<float>(ReadNumber(*attrs, "momentum", param.momentum));
  param.temperature = ReadNumber(*attrs, "temperature", 1);
  param.fix_gamma = ReadFlag(*attrs, "fix_gamma", true);
  param.use_global_stats = ReadFlag(*attrs, "use_global_stats", false);
  attrs->parsed = param;
}

/*! \brief Gives every tensor of the list the shape of its letter; `given` is that of the letters n
 * and i.
 */
void AssignShapes(const NodeAttrs& attrs, const Signature& signature, const char* letters,
                  const mxnet::TShape& data, const mxnet::TShape& given,
                  mxnet::ShapeVector* shapes) {
  // Where a result has another shape, `axis` may be a dimension of that alone.
  const bool has_axis = signature.result == nullptr;
  const int axis = has_axis ? PositiveAxis(data, LoweredParamOf(attrs).axis) : 0;
  for (size_t i = 0; i < shapes->size(); ++i) {
    mxnet::TShape expected = std::strchr("ni", letters[i]) != nullptr ? given : data;
    CHECK(letters[i] != 'n' || given.Size() * data[axis] == data.Size())
        << attrs.name << ": tensor " << i << " has shape " << given << ", but one number is needed "
        << "for each line of data of shape " << data;
    if (letters[i] == 't') expected = signature.result(LoweredParamOf(attrs), data, given);
    if (letters[i] == 'N') expected = mxnet::TShape(1, 1);
    if (std::strchr("vrV", letters[i]) != nullptr) expected = mxnet::TShape(1, data[axis]);
    if (letters[i] == 'l' || letters[i] == 'L') expected[axis] = 1;
    mxnet::TShape& shape = shapes->at(i);
    CHECK(!mxnet::shape_is_known(shape) || shape == expected)
        << attrs.name << ": tensor " << i << " has shape " << shape << ", and " << expected
        << " is expected for data of shape " << data;
    shape = expected;
  }
}

int TypeOf(char letter, int data, int indices) {
  if (letter == 'i') return indices;
  if (letter == 'V' || letter == 'L' || letter == 'N') return mshadow::kFloat64;
  return letter == 'r' && data == mshadow::kFloat16 ? static_cast<int>(mshadow::kFloat32) : data;
}

void AssignTypes(const NodeAttrs& attrs, const char* letters, int data, int indices,
                 std::vector<int>* types) {
  for (size_t i = 0; i < types->size(); ++i) {
    const int expected = TypeOf(letters[i], data, indices);
    CHECK(types->at(i) == kUnknownType || types->at(i) == expected)
        << attrs.name << ": tensor " << i << " has type code " << types->at(i) << ", and "
        << expected << " is expected";
    types->at(i) = expected;
  }
}

}  // namespace

const LoweredParam& LoweredParamOf(const NodeAttrs& attrs) {
  return nnvm::get<LoweredParam>(attrs.parsed);
}

void ParseBatchNormPart(NodeAttrs* attrs) { Parse(attrs, 1, 1e-3f); }

void ParseLayerNormPart(NodeAttrs* attrs) {
  Parse(attrs, -1, 1e-5f);
  LoweredParam& param = nnvm::get<LoweredParam>(attrs->parsed);
  param.eps = static_cast<float>(param.eps);  // as MXNet holds it
}

void ParseSoftmaxPart(NodeAttrs* attrs) { Parse(attrs, -1, 0); }

void ParsePoolingPart(NodeAttrs* attrs) {
  Parse(attrs, 2, 0);
  cuda::Window& window = nnvm::get<LoweredParam>(attrs->parsed).window;
  const std::pair<const char*, cuda::Index*> fields[] = {
      {"kernel", &window.kernel}, {"stride", &window.stride}, {"pad", &window.pad},
      {"begin", &window.begin},   {"end", &window.end},       {"first", &window.first}};
  for (const auto& field : fields) {
    *field.second = static_cast<cuda::Index>(ReadNumber(*attrs, field.first, *field.second));
  }
}

void ParsePositionsPart(NodeAttrs* attrs) {
  Parse(attrs, 0, 0);
  LoweredParam& param = nnvm::get<LoweredParam>(attrs->parsed);
  CHECK_GE(param.axis, 0) << attrs->name << ": axis counts from the front";
  param.keepdims = ReadFlag(*attrs, "keepdims", false);
  param.on_value = ReadNumber(*attrs, "on_value", param.on_value);
  param.off_value = ReadNumber(*attrs, "off_value", param.off_value);
  cuda::Positions& positions = param.positions;
  positions.first = static_cast<cuda::Index>(ReadNumber(*attrs, "first", positions.first));
  positions.whole = static_cast<cuda::Index>(ReadNumber(*attrs, "rows", positions.whole));
  positions.extent = static_cast<cuda::Index>(ReadNumber(*attrs, "extent", positions.extent));
  positions.meaning = ReadMeaning(*attrs);
}

void ParseLossPart(NodeAttrs* attrs) {
  Parse(attrs, 0, 0);
  LoweredParam& param = nnvm::get<LoweredParam>(attrs->parsed);
  param.labels.scale = static_cast<float>(ReadNumber(*attrs, "grad_scale", param.labels.scale));
  param.valid_thresh = static_cast<float>(ReadNumber(*attrs, "valid_thresh", param.valid_thresh));
}

void ParseSoftmaxOutputPart(NodeAttrs* attrs) {
  Parse(attrs, -1, 0);
  cuda::Labels& labels = nnvm::get<LoweredParam>(attrs->parsed).labels;
  labels.scale = static_cast<float>(ReadNumber(*attrs, "grad_scale", labels.scale));
  labels.smoothing = static_cast<float>(ReadNumber(*attrs, "smooth_alpha", labels.smoothing));
  labels.ignored = static_cast<int>(ReadNumber(*attrs, "ignore_label", labels.ignored));
  labels.classes = static_cast<cuda::Index>(ReadNumber(*attrs, "classes", labels.classes));
  labels.first = static_cast<cuda::Index>(ReadNumber(*attrs, "first", labels.first));
  labels.are_ignored = ReadFlag(*attrs, "use_ignore", false) ? 1 : 0;
}

namespace {

mxnet::FInferShape InferShapeOf(Signature signature) {
  return
      [signature](const NodeAttrs& attrs, mxnet::ShapeVector* inputs, mxnet::ShapeVector* outputs) {
        const mxnet::TShape data = inputs->at(0);  // every operator has its data first
        const char* any = std::strpbrk(signature.inputs, "ni");
        const mxnet::TShape given = any == nullptr ? data : inputs->at(any - signature.inputs);
        if (!mxnet::shape_is_known(data) || !mxnet::shape_is_known(given)) return false;
        AssignShapes(attrs, signature, signature.inputs, data, given, inputs);
        AssignShapes(attrs, signature, signature.outputs, data, given, outputs);
        return true;
      };
}

nnvm::FInferType InferTypeOf(Signature signature) {
  return [signature](const NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
    const int data = inputs->at(0);
    const char* any = std::strchr(signature.inputs, 'i');
    const int indices = any == nullptr ? data : inputs->at(any - signature.inputs);
    if (data == kUnknownType || indices == kUnknownType) return false;
    AssignTypes(attrs, signature.inputs, data, indices, inputs);
    AssignTypes(attrs, signature.outputs, data, indices, outputs);
    return true;
  };
}

}  // namespace

nnvm::Op& RegisterPart(const char* name, Signature signature, void (*parser)(NodeAttrs*),
                       mxnet::FCompute compute, std::vector<cuda::PartKernel> kernels,
                       ViewOf view) {
  nnvm::Op& op = dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name);
  return op.set_num_inputs(static_cast<uint32_t>(std::strlen(signature.inputs)))
      .set_num_outputs(static_cast<uint32_t>(std::strlen(signature.outputs)))
      .set_attr_parser(parser)
      .set_attr<mxnet::FInferShape>("FInferShape", InferShapeOf(signature))
      .set_attr<nnvm::FInferType>("FInferType", InferTypeOf(signature))
      .set_attr<mxnet::FCompute>("FCompute<cpu>", compute)
      .set_attr<PartKernels>(kPartKernels, kernels)
      .set_attr<mxnet::FCompute>("FCompute<gpu>", ComputeOnGpu(std::move(kernels), view));
}

}  // namespace nnvm_layer
}  // namespace tofu
