/*!
 * \file loss.cu
 * \brief Entry points of the parts of the gradients of losses, for data of type TOFU_TYPE.
 */
#include "loss.cuh"

TOFU_PART(tofu_valid_cells, ReduceGroups, OnLine, ValidCells<TOFU_ELEMENT>)
TOFU_PART(tofu_make_loss_gradient, MapGroups, AtPosition, MakeLossGradient<TOFU_ELEMENT>)
TOFU_PART(tofu_scale, MapGroups, AtPosition, Scale<TOFU_ELEMENT>)
