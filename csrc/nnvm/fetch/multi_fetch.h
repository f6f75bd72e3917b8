/*!
 * \file multi_fetch.h
 * \brief The operator _tofu_multi_fetch, which assembles a region of a tensor from shards (paper
 * section 6, "MultiFetch").
 *
 * It is the only operator of a partitioned graph that reads memory of other devices. The inputs may
 * be on any device; the output is on the device of the operator.
 */
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/program/piece.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

extern const char kMultiFetchName[];

class GpuFetch;

/*! \brief The parsed attributes of a fetch. The region consists of pieces, boxes that are read from
 * one or several sources. Elements outside of all pieces hold `fill`. */
struct MultiFetchParam {
  int num_args = 0;
  mxnet::TShape shape;
  int dtype = -1;  // MXNet's type code; -1: as the inputs
  double fill = 0.0;
  Reducer reducer = Reducer::kSum;  // of the sources of a piece
  std::vector<Piece> pieces;
  // For reports and checks: the tensor and its reader.
  std::string tensor;
  int worker = 0;
  int phase = 0;
  // Prepared data for its GPU, shared by copies of the attributes.
  std::shared_ptr<GpuFetch> gpu;
};

/*! \brief Set the attributes of a fetch, both parsed and as the text that MXNet saves and loads. */
void SetMultiFetchAttributes(MultiFetchParam param, nnvm::NodeAttrs* attrs);

/*!
 * \brief Parses the text of a node's attributes.
 * \throw dmlc::Error if a number cannot be read or a piece leaves the region
 */
void ParseMultiFetch(nnvm::NodeAttrs* attrs);

const MultiFetchParam& MultiFetchParamOf(const nnvm::NodeAttrs& attrs);

const nnvm::Op* MultiFetchOp();

}  // namespace tofu::nnvm_layer
