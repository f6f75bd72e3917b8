/*!
 * \file softmax.cu
 * \brief Entry points of softmax's and log_softmax's parts, for data of type TOFU_TYPE.
 */
#include "softmax.cuh"

TOFU_PART(tofu_softmax_maximum, ReduceGroups, OnLine, SoftmaxMaximum<TOFU_ELEMENT>)
TOFU_PART(tofu_softmax_sum, ReduceGroups, OnLine, SoftmaxSum<TOFU_ELEMENT>)
TOFU_PART(tofu_softmax_apply, MapGroups, OnLine, SoftmaxApply<TOFU_ELEMENT, false>)
TOFU_PART(tofu_log_softmax_apply, MapGroups, OnLine, SoftmaxApply<TOFU_ELEMENT, true>)
TOFU_PART(tofu_softmax_backward_sum, ReduceGroups, OnLine, SoftmaxBackwardSum<TOFU_ELEMENT, false>)
TOFU_PART(tofu_log_softmax_backward_sum, ReduceGroups, OnLine,
          SoftmaxBackwardSum<TOFU_ELEMENT, true>)
TOFU_PART(tofu_softmax_backward_apply, MapGroups, OnLine, SoftmaxBackwardApply<TOFU_ELEMENT, false>)
TOFU_PART(tofu_log_softmax_backward_apply, MapGroups, OnLine,
          SoftmaxBackwardApply<TOFU_ELEMENT, true>)
