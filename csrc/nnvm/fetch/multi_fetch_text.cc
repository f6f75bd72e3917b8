/*!
 * \file multi_fetch_text.cc
 */

#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "core/base/phase.h"
#include "core/program/fetch_text.h"
#include "nnvm/fetch/multi_fetch_gpu.h"

namespace tofu::nnvm_layer {
namespace {

constexpr int64_t kMostInputs = std::numeric_limits<int>::max();

std::vector<int64_t> Extents(const MultiFetchParam& param, const std::string& name) {
  CHECK(mxnet::shape_is_known(param.shape)) << name << ": the shape of the region is not known";
  return {param.shape.begin(), param.shape.end()};
}

/*! \brief Convert a value to text. A double is read back with the same bits. */
template <typename T>
std::string ToText(const T& value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  out << value;
  return out.str();
}

/*! \brief The text of an attribute, or a default. */
std::string TextOf(const nnvm::NodeAttrs& attrs, const char* key, const char* otherwise) {
  const std::string* found = FindText(attrs, key);
  return found == nullptr ? otherwise : *found;
}

int ParseInt(const nnvm::NodeAttrs& attrs, const char* key, const char* otherwise, int64_t low,
             int64_t high) {
  return static_cast<int>(ParseNumber(TextOf(attrs, key, otherwise), low, high));
}

MultiFetchParam ParseParam(const nnvm::NodeAttrs& attrs) {
  MultiFetchParam param;
  param.num_args = ParseInt(attrs, "num_args", "0", 0, kMostInputs);
  std::istringstream shape(TextOf(attrs, "shape", ""));
  if (!(shape >> param.shape)) throw std::invalid_argument("\"" + shape.str() + "\" is no shape");
  param.dtype = ParseInt(attrs, "dtype", "-1", -1, mshadow::kBool);
  param.fill = ParseReal(TextOf(attrs, "fill", "0"));
  param.reducer = static_cast<Reducer>(ParseInt(attrs, "reducer", "0", 0, kNumReducers - 1));
  param.pieces =
      ParsePieces(TextOf(attrs, "pieces", ""), Extents(param, attrs.name), param.num_args);
  param.tensor = TextOf(attrs, "tensor", "");
  param.worker = ParseInt(attrs, "worker", "0", 0, kMostInputs);
  param.phase = ParseInt(attrs, "phase", "0", 0, kNumPhases - 1);
  return param;
}

}  // namespace

void ParseMultiFetch(nnvm::NodeAttrs* attrs) {
  try {
    MultiFetchParam param = ParseParam(*attrs);
    param.gpu = std::make_shared<GpuFetch>();
    attrs->parsed = std::move(param);
  } catch (const std::invalid_argument& error) {
    LOG(FATAL) << "_tofu_multi_fetch " << attrs->name << ": " << error.what();
  }
}

void SetMultiFetchAttributes(MultiFetchParam param, nnvm::NodeAttrs* attrs) {
  try {
    CheckPieces(param.pieces, Extents(param, attrs->name), param.num_args);
  } catch (const std::invalid_argument& error) {
    LOG(FATAL) << "_tofu_multi_fetch " << attrs->name << ": " << error.what();
  }
  attrs->op = MultiFetchOp();
  attrs->dict["num_args"] = ToText(param.num_args);
  attrs->dict["shape"] = ToText(param.shape);
  attrs->dict["dtype"] = ToText(param.dtype);
  attrs->dict["fill"] = ToText(param.fill);
  if (param.reducer != Reducer::kSum) {
    attrs->dict["reducer"] = ToText(static_cast<int>(param.reducer));
  }
  attrs->dict["pieces"] = WritePieces(param.pieces);
  attrs->dict["tensor"] = param.tensor;
  attrs->dict["worker"] = ToText(param.worker);
  attrs->dict["phase"] = ToText(param.phase);
  param.gpu = std::make_shared<GpuFetch>();
  attrs->parsed = std::move(param);
}

}  // namespace tofu::nnvm_layer
