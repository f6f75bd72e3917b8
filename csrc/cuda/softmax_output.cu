/*!
 * \file softmax_output.cu
 * \brief Entry points of the parts of SoftmaxOutput's gradient, for data of type TOFU_TYPE.
 */
#include "softmax_output.cuh"

TOFU_PART(tofu_valid_labels, ReduceGroups, OnLine, ValidLabels<TOFU_ELEMENT>)
TOFU_PART(tofu_softmax_output_gradient, MapGroups, OnLine, SoftmaxOutputGradient<TOFU_ELEMENT>)
