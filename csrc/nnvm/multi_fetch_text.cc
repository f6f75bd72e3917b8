/*!
 * \file multi_fetch_text.cc
 */
#include "nnvm/multi_fetch_text.h"

#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>

#include "nnvm/multi_fetch_gpu.h"

namespace tofu {
namespace nnvm_layer {
namespace {

using Coordinates = std::vector<int64_t>;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

int64_t ParseInteger(const std::string& text) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  CHECK(!text.empty() && *end == '\0') << "_tofu_multi_fetch: \"" << text << "\" is no integer";
  return value;
}

Coordinates ParseCoordinates(const std::string& text) {
  Coordinates values;
  for (const std::string& part : Split(text, ',')) values.push_back(ParseInteger(part));
  return values;
}

FetchPiece ParsePiece(const std::string& text) {
  const std::vector<std::string> fields = Split(text, ':');
  CHECK_EQ(fields.size(), 3U) << "_tofu_multi_fetch: \"" << text << "\" is no begin:extent:sources";
  FetchPiece piece;
  piece.begin = ParseCoordinates(fields[0]);
  piece.extent = ParseCoordinates(fields[1]);
  for (const std::string& source : Split(fields[2], '+')) {
    const size_t at = source.find('@');
    CHECK(at != std::string::npos) << "_tofu_multi_fetch: \"" << source << "\" is no input@begin";
    piece.sources.push_back(FetchSource{static_cast<int>(ParseInteger(source.substr(0, at))),
                                        ParseCoordinates(source.substr(at + 1))});
  }
  return piece;
}

void CheckPiece(const MultiFetchParam& param, const FetchPiece& piece, const std::string& name) {
  const size_t ndim = param.shape.ndim();
  CHECK(piece.begin.size() == ndim && piece.extent.size() == ndim)
      << name << ": a piece has not the " << ndim << " dimensions of its region " << param.shape;
  for (size_t d = 0; d < ndim; ++d) {
    CHECK(piece.begin[d] >= 0 && piece.extent[d] >= 0 &&
          piece.begin[d] + piece.extent[d] <= param.shape[d])
        << name << ": a piece leaves its region " << param.shape << " in dimension " << d;
  }
  CHECK(!piece.sources.empty()) << name << ": a piece without sources";
  for (const FetchSource& source : piece.sources) {
    CHECK(source.input >= 0 && source.input < param.num_args)
        << name << " has " << param.num_args << " inputs, a piece reads number " << source.input;
    CHECK_EQ(source.begin.size(), ndim) << name << ": a source has not the region's dimensions";
    for (int64_t begin : source.begin) CHECK_GE(begin, 0) << name << ": a source begins outside";
  }
}

void CheckParam(const MultiFetchParam& param, const std::string& name) {
  CHECK(mxnet::shape_is_known(param.shape)) << name << ": the shape of the region is not known";
  for (const FetchPiece& piece : param.pieces) CheckPiece(param, piece, name);
}

void WriteCoordinates(const Coordinates& values, std::ostream* out) {
  for (size_t d = 0; d < values.size(); ++d) *out << (d == 0 ? "" : ",") << values[d];
}

std::string WritePieces(const std::vector<FetchPiece>& pieces) {
  std::ostringstream out;
  for (size_t p = 0; p < pieces.size(); ++p) {
    if (p != 0) out << ';';
    WriteCoordinates(pieces[p].begin, &out);
    out << ':';
    WriteCoordinates(pieces[p].extent, &out);
    for (size_t s = 0; s < pieces[p].sources.size(); ++s) {
      out << (s == 0 ? ':' : '+') << pieces[p].sources[s].input << '@';
      WriteCoordinates(pieces[p].sources[s].begin, &out);
    }
  }
  return out.str();
}

/*! \brief Any value as text; a double so that reading it gives the same bits. */
template <typename T>
std::string ToText(const T& value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  out << value;
  return out.str();
}

/*! \brief The text of an attribute, or a default where it is left out. */
std::string TextOf(const nnvm::NodeAttrs& attrs, const char* key, const char* otherwise) {
  const auto found = attrs.dict.find(key);
  return found == attrs.dict.end() ? otherwise : found->second;
}

}  // namespace

void ParseMultiFetch(nnvm::NodeAttrs* attrs) {
  MultiFetchParam param;
  param.num_args = static_cast<int>(ParseInteger(TextOf(*attrs, "num_args", "0")));
  std::istringstream shape(TextOf(*attrs, "shape", ""));
  CHECK(shape >> param.shape) << attrs->name << ": \"" << shape.str() << "\" is no shape";
  param.dtype = static_cast<int>(ParseInteger(TextOf(*attrs, "dtype", "-1")));
  param.fill = std::strtod(TextOf(*attrs, "fill", "0").c_str(), nullptr);
  param.takes_maximum = ParseInteger(TextOf(*attrs, "takes_maximum", "0")) != 0;
  for (const std::string& piece : Split(TextOf(*attrs, "pieces", ""), ';')) {
    param.pieces.push_back(ParsePiece(piece));
  }
  param.tensor = TextOf(*attrs, "tensor", "");
  param.worker = static_cast<int>(ParseInteger(TextOf(*attrs, "worker", "0")));
  param.phase = static_cast<int>(ParseInteger(TextOf(*attrs, "phase", "0")));
  CheckParam(param, attrs->name);
  param.gpu = std::make_shared<GpuFetch>();
  attrs->parsed = std::move(param);
}

void SetMultiFetchAttributes(MultiFetchParam param, nnvm::NodeAttrs* attrs) {
  CheckParam(param, attrs->name);
  attrs->op = MultiFetchOp();
  attrs->dict["num_args"] = ToText(param.num_args);
  attrs->dict["shape"] = ToText(param.shape);
  attrs->dict["dtype"] = ToText(param.dtype);
  attrs->dict["fill"] = ToText(param.fill);
  if (param.takes_maximum) attrs->dict["takes_maximum"] = "1";
  attrs->dict["pieces"] = WritePieces(param.pieces);
  attrs->dict["tensor"] = param.tensor;
  attrs->dict["worker"] = ToText(param.worker);
  attrs->dict["phase"] = ToText(param.phase);
  param.gpu = std::make_shared<GpuFetch>();
  attrs->parsed = std::move(param);
}

}  // namespace nnvm_layer
}  // namespace tofu
