/*!
 * \file recorded_call.h
 * \brief A call that MXNet's autograd sees as one operator: what a partitioned block computes.
 *
 * MXNet's own way for this, autograd.Function, runs the backward in another thread, while the
 * operators that follow it are queued already. Those may hold what the backward's operators need,
 * the scratch memory of a device, and wait for its results: neither would ever run. Here the
 * backward is run where it stands in the order, by the thread that issues it.
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
   * \brief Issues what computes the gradients of the call's inputs.
   * \param heads gradients of the call's outputs
   * \param requests what becomes of each gradient: mxnet::OpReqType
   * \param gradients where those of the inputs are to be written
   */
  virtual void Run(const std::vector<mxnet::NDArray>& heads,
                   const std::vector<mxnet::OpReqType>& requests,
                   const std::vector<mxnet::NDArray>& gradients) = 0;
};

/*! \brief Has autograd record that the outputs were computed from the inputs. Throws where it does
 * not record. */
void RecordCall(const std::vector<ObjectHandle>& inputs, const std::vector<ObjectHandle>& outputs,
                std::shared_ptr<RecordedBackward> backward);

/*! \brief Whether autograd has a way from this array to one that wants a gradient. */
bool NeedsGradient(ObjectHandle array);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_AUTOGRAD_RECORDED_CALL_H_
