/*!
 * \file batch_norm.cu
 * \brief Entry points of BatchNorm's parts, for data of type TOFU_TYPE.
 */
#include "batch_norm.cuh"

TOFU_PART(tofu_batch_norm_sum, ReduceGroups, AtPosition, DataSum<TOFU_ELEMENT>)
TOFU_PART(tofu_batch_norm_squares, ReduceGroups, AtPosition, DataSquares<TOFU_ELEMENT>)
TOFU_PART(tofu_batch_norm_apply, MapGroups, AtPosition, BatchNormApply<TOFU_ELEMENT, false>)
TOFU_PART(tofu_batch_norm_global, MapGroups, AtPosition, BatchNormApply<TOFU_ELEMENT, true>)
TOFU_PART(tofu_batch_norm_backward_sums, ReduceGroups, AtPosition,
          BatchNormBackwardSums<TOFU_ELEMENT>)
TOFU_PART(tofu_batch_norm_backward_apply, MapGroups, AtPosition,
          BatchNormBackwardApply<TOFU_ELEMENT>)
