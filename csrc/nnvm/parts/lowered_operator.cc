/*!
 * \file lowered_operator.cc
 */
#include "nnvm/parts/lowered_operator.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "nnvm/base/gpu_call.h"

namespace tofu::nnvm_layer {

static_assert(static_cast<int>(mxnet::kNullOp) == cuda::kNothingRequested &&
                  static_cast<int>(mxnet::kAddTo) == cuda::kAdditionRequested,
              "kernels read MXNet's codes of requests");
static_assert(mshadow::kFloat32 == 0 && mshadow::kFloat64 == 1 && mshadow::kFloat16 == 2 &&
                  mshadow::kUint8 == 3 && mshadow::kInt32 == 4 && mshadow::kInt8 == 5 &&
                  mshadow::kInt64 == 6,
              "cuda::Positions reads MXNet's codes of types");

bool ReadFlag(const NodeAttrs& attrs, const char* key, bool otherwise) {
  const std::string* found = FindText(attrs, key);
  if (found == nullptr) return otherwise;
  const std::string& text = *found;
  if (text == "True" || text == "true" || text == "1") return true;
  CHECK(text == "False" || text == "false" || text == "0")
      << attrs.name << ": attribute " << key << " is \"" << text << "\", neither True nor False";
  return false;
}

namespace {

constexpr int kUnknownType = -1;

double ReadNumber(const NodeAttrs& attrs, const char* key, double otherwise) {
  const std::string* found = FindText(attrs, key);
  if (found == nullptr || *found == "None") return otherwise;
  char* end = nullptr;
  const double value = std::strtod(found->c_str(), &end);
  CHECK(!found->empty() && *end == '\0')
      << attrs.name << ": attribute " << key << " is \"" << *found << "\", no number";
  return value;
}

/*! \brief Read the attribute `mode`: values of stock operators, and two more. */
int ReadMeaning(const NodeAttrs& attrs) {
  const std::string* found = FindText(attrs, "mode");
  if (found == nullptr || *found == "clip") return cuda::kClipped;
  const std::string& mode = *found;
  CHECK(mode == "wrap" || mode == "exact" || mode == "length")
      << attrs.name << ": attribute mode is \"" << mode
      << "\", none of clip, wrap, exact and length";
  return mode == "wrap" ? cuda::kWrapped : mode == "exact" ? cuda::kExact : cuda::kLength;
}

/*! \brief Read the attributes of all families, with the names and defaults of stock operators. */
void Parse(const PartFamily& family, NodeAttrs* attrs) {
  LoweredParam param;
  PartArguments& a = param.arguments;
  const auto read = [attrs](const char* key, auto otherwise, auto* field) {
    using Field = std::remove_reference_t<decltype(*field)>;
    *field = static_cast<Field>(ReadNumber(*attrs, key, static_cast<double>(otherwise)));
  };
  // MXNet holds these numbers in single precision.
  const auto read_float = [&](const char* key, float otherwise, double* field) {
    read(key, otherwise, field);
    *field = static_cast<float>(*field);
  };
  read("axis", family.axis, &param.axis);
  read("count", 1, &a.count);
  read("eps", family.eps, &a.eps);
  if (family.holds_eps_as_float) a.eps = static_cast<float>(a.eps);
  read_float("momentum", 0.9f, &a.momentum);
  read("temperature", 1, &a.temperature);
  read("kernel", 1, &a.window.kernel);
  read("stride", 1, &a.window.stride);
  read("pad", 0, &a.window.pad);
  read("begin", 0, &a.window.begin);
  read("end", 1, &a.window.end);
  read("grad_scale", 1, &a.labels.scale);
  read("smooth_alpha", 0, &a.labels.smoothing);
  read("ignore_label", -1, &a.labels.ignored);
  read("classes", 1, &a.labels.classes);
  read("rows", 1, &a.positions.whole);
  read("extent", 1, &a.positions.extent);
  read("on_value", 1, &a.on_value);
  read("off_value", 0, &a.off_value);
  for (cuda::Index* first : {&a.window.first, &a.labels.first, &a.positions.first})
    read("first", 0, first);
  read_float("valid_thresh", 0, &a.valid_thresh);
  a.positions.meaning = ReadMeaning(*attrs);
  a.labels.are_ignored = ReadFlag(*attrs, "use_ignore", false);
  a.fix_gamma = ReadFlag(*attrs, "fix_gamma", true);
  param.keepdims = ReadFlag(*attrs, "keepdims", false);
  attrs->parsed = param;
}

/*! \brief Set or check the shape of every tensor by its letter. `given` is the shape of letters n
 * and i. */
void AssignShapes(const NodeAttrs& attrs, const Signature& signature, const char* letters,
                  const mxnet::TShape& data, const mxnet::TShape& given,
                  mxnet::ShapeVector* shapes) {
  // If a result has another shape, `axis` may be a dimension of that.
  const bool has_axis = signature.result == nullptr;
  const int axis = has_axis ? PositiveAxis(data, LoweredParamOf(attrs).axis) : 0;
  for (size_t i = 0; i < shapes->size(); ++i) {
    mxnet::TShape expected = std::strchr("ni", letters[i]) != nullptr ? given : data;
    CHECK(letters[i] != 'n' || given.Size() * data[axis] == data.Size())
        << attrs.name << ": tensor " << i << " has shape " << given << ", but one number is needed "
        << "for each line of data of shape " << data;
    if (letters[i] == 't') {
      CHECK_GE(LoweredParamOf(attrs).axis, 0) << attrs.name << ": axis counts from the front";
      expected = signature.result(LoweredParamOf(attrs), data, given);
    }
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

namespace {

mxnet::FInferShape InferShapeOf(Signature signature) {
  return
      [signature](const NodeAttrs& attrs, mxnet::ShapeVector* inputs, mxnet::ShapeVector* outputs) {
        const mxnet::TShape data = inputs->at(0);  // the data is the first input of every operator
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

nnvm::Op& FindOperator(const char* name) {
  return dmlc::Registry<nnvm::Op>::Get()->__REGISTER_OR_GET__(name);
}

}  // namespace

void DescribeIndices(const DimensionView& view, const TBlob& indices, cuda::Positions* positions) {
  positions->extent = view.extent;
  positions->count = static_cast<int64_t>(indices.Size());
  positions->type = indices.type_flag_;
  positions->lines =
      std::max<int64_t>(1, view.num_lines() / std::max<int64_t>(1, positions->count));
}

PartRun MakeRun(const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                const Requests& requests, const Blobs& outputs, ViewOf view_of) {
  const int type = inputs[0].type_flag_;
  CHECK(type == mshadow::kFloat32 || type == mshadow::kFloat64 || type == mshadow::kFloat16)
      << attrs.name << ": there are no kernels for data of type code " << type;
  CHECK_LE(inputs.size() + outputs.size(), static_cast<size_t>(cuda::kMaxPartTensors));
  CHECK_LE(outputs.size(), static_cast<size_t>(cuda::kMaxPartOutputs));
  const LoweredParam& param = LoweredParamOf(attrs);
  PartArguments arguments = param.arguments;
  const DimensionView view = view_of(param.axis, inputs, outputs, &arguments.positions);
  void** next = arguments.tensors;
  for (const TBlob& input : inputs) *next++ = input.dptr_;
  for (const TBlob& output : outputs) *next++ = output.dptr_;
  arguments.num_inputs = static_cast<int>(inputs.size());
  std::copy(requests.begin(), requests.end(), arguments.requests);
  arguments.outer = view.outer;
  arguments.extent = view.extent;
  arguments.inner = view.inner;
  arguments.is_train = context.is_train ? 1 : 0;
  return {arguments, view};
}

bool RegisterParts(const PartFamily& family, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const auto compute = [part](const NodeAttrs& attrs, const OpContext& context,
                                const Blobs& inputs, const Requests& requests,
                                const Blobs& outputs) {
      const PartRun run = MakeRun(attrs, context, inputs, requests, outputs, part.view);
      part.method.compute(run.arguments, run.view, inputs[0].type_flag_);
    };
    std::vector<cuda::PartKernel> kernels = part.kernels;
    if (kernels.empty())
      kernels = {{family.kernel_file, part.name + 1, part.method.loop}};  // without "_"
    const auto launch = [kernels, view = part.view](
                            const NodeAttrs& attrs, const OpContext& context, const Blobs& inputs,
                            const Requests& requests, const Blobs& outputs) {
      const PartRun run = MakeRun(attrs, context, inputs, requests, outputs, view);
      CallGpu(attrs.name, [&] {
        for (const cuda::PartKernel& kernel : kernels) {
          cuda::LaunchPart(kernel, KernelTypeName(inputs[0].type_flag_), inputs[0].dev_id(),
                           StreamOf(context), run.arguments);
        }
      });
    };
    FindOperator(part.name)
        .set_num_inputs(static_cast<uint32_t>(std::strlen(part.signature.inputs)))
        .set_num_outputs(static_cast<uint32_t>(std::strlen(part.signature.outputs)))
        .set_attr_parser([family](NodeAttrs* attrs) { Parse(family, attrs); })
        .set_attr<mxnet::FInferShape>("FInferShape", InferShapeOf(part.signature))
        .set_attr<nnvm::FInferType>("FInferType", InferTypeOf(part.signature))
        .set_attr<mxnet::FCompute>("FCompute<cpu>", compute)
        .set_attr<PartKernels>(kPartKernels, kernels)
        .set_attr<mxnet::FCompute>("FCompute<gpu>", launch);
  }
  return true;
}

bool AllowInPlace(const std::vector<const char*>& names) {
  for (const char* name : names)
    FindOperator(name).set_attr<nnvm::FInplaceOption>("FInplaceOption", FirstInPlace);
  return true;
}

}  // namespace tofu::nnvm_layer
