/*!
 * \file recorded_call.h
 * \brief The call of a partitioned block as one operator of MXNet's autograd.
 *
 * MXNet's autograd.Function runs the backward in another thread, after later operators were queued.
 * These operators may hold scratch memory that the backward needs, and wait for its results: a
 * deadlock. Here, the thread that issues operators runs the backward in its turn.
 */
#pragma once

#include <functional>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Issues the operators that compute the gradients of a recorded call's inputs. `heads` are
 * the gradients of its outputs, and `requests` the mxnet::OpReqType of each of `gradients`, where
 * the results are written. */
using RecordedBackward = std::function<void(const std::vector<mxnet::NDArray>& heads,
                                            const std::vector<mxnet::OpReqType>& requests,
                                            const std::vector<mxnet::NDArray>& gradients)>;

/*! \brief Record that the outputs were computed from the inputs. \throws dmlc::Error if autograd
 * does not record */
void RecordCall(const std::vector<ObjectHandle>& inputs, const std::vector<ObjectHandle>& outputs,
                RecordedBackward backward);

/*! \brief Return true if autograd has a path from the array to one that needs a gradient. */
bool NeedsGradient(ObjectHandle array);

}  // namespace tofu::nnvm_layer
