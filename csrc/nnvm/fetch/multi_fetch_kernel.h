/*!
 * \file multi_fetch_kernel.h
 * \brief The CPU kernel of _tofu_multi_fetch, and its counters.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "nnvm/base/mxnet_api.h"
#include "nnvm/fetch/multi_fetch.h"

namespace tofu::nnvm_layer {

/*! \brief Sums over all launches since the last reset, of all executors in the process. */
struct FetchCounters {
  int64_t bytes_read_remote = 0;  // from inputs on another device than the output
  int64_t bytes_read_local = 0;
  int64_t launches = 0;
};

/*!
 * \brief Return true if fetches do nothing, since TOFU_SKIP_FETCH=1 was set at the first fetch.
 *
 * The outputs of fetches are undefined then. Only the time of a step is meaningful, as in section
 * 7.2 of the paper.
 */
bool SkipsFetches();

FetchCounters ReadFetchCounters();
void ResetFetchCounters();

/*! \brief Add a launch to the counters. */
void CountFetch(const MultiFetchParam& param, const std::vector<mxnet::TBlob>& inputs,
                const mxnet::TBlob& output);

/*!
 * \brief Assemble the region, and write it or add it to `outputs[0]`, as `requests[0]` says.
 *
 * Sources of a piece are combined in order. 16-bit types are summed in float.
 */
void ComputeMultiFetch(const nnvm::NodeAttrs& attrs, const mxnet::OpContext& context,
                       const std::vector<mxnet::TBlob>& inputs,
                       const std::vector<mxnet::OpReqType>& requests,
                       const std::vector<mxnet::TBlob>& outputs);

}  // namespace tofu::nnvm_layer
