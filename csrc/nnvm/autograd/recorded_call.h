/*!
 * \file recorded_call.h
 * \brief The call of a partitioned block as one operator of MXNet's autograd.
 *
 * MXNet's autograd.Function runs the backward in another thread, after later operators were queued.
 * These operators may hold scratch memory that the backward needs, and wait for its results: a
 * deadlock. Here, the thread that issues operators runs the backward in its turn.
 */
#ifndef TOFU_NNVM_AUTOGRAD_RECORDED_CALL_H_
#define TOFU_NNVM_AUTOGRAD_RECORDED_CALL_H_

#include <memory>
#include <vector>

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The backward of a recorded call. */
class RecordedBackward {
 public:
  virtual ~RecordedBackward() = default;
  /*!
   * \brief Issue the operators that compute the gradients of the call's inputs.
   * \\param heads gradients of the call's outputs
   * \\param requests mxnet::OpReqType of each gradient
   * \\param gradients where the inputs' gradients are written
   */
  virtual void Run(const std::vector<mxnet::NDArray>& heads,
                   const std::vector<mxnet::OpReqType>& requests,
                   const std::vector<mxnet::NDArray>& gradients) = 0;
};

/*! \brief Record that the outputs were computed from the inputs. \throws dmlc::Error if autograd
 * does not record */
void RecordCall(const std::vector<ObjectHandle>& inputs, const std::vector<ObjectHandle>& outputs,
                std::shared_ptr<RecordedBackward> backward);

/*! \brief Return true if autograd has a path from the array to one that needs a gradient. */
bool NeedsGradient(ObjectHandle array);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_AUTOGRAD_RECORDED_CALL_H_
