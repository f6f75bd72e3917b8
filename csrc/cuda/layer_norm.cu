/*!
 * \file layer_norm.cu
 * \brief Entry points of LayerNorm's parts, for data of type TOFU_TYPE.
 */
#include "layer_norm.cuh"

TOFU_PART(tofu_layer_norm_sum, ReduceGroups, OnLine, DataSum<TOFU_ELEMENT>)
TOFU_PART(tofu_layer_norm_squares, ReduceGroups, OnLine, DataSquares<TOFU_ELEMENT>)
TOFU_PART(tofu_layer_norm_apply, MapGroups, OnLine, LayerNormApply<TOFU_ELEMENT>)
TOFU_PART(tofu_layer_norm_backward_sums, ReduceGroups, OnLine, LayerNormBackwardSums<TOFU_ELEMENT>)
TOFU_PART(tofu_layer_norm_backward_parameters, ReduceGroups, AtPosition,
          LayerNormBackwardParameters<TOFU_ELEMENT>)
TOFU_PART(tofu_layer_norm_backward_apply, MapGroups, OnLine, LayerNormBackwardApply<TOFU_ELEMENT>)
