/*!
 * \file make_loss.cu
 * \brief Entry points of the parts of MakeLoss's gradient, for data of type TOFU_TYPE.
 */
#include "make_loss.cuh"

TOFU_PART(tofu_valid_cells, ReduceGroups, OnLine, ValidCells<TOFU_ELEMENT>)
TOFU_PART(tofu_make_loss_gradient, MapGroups, AtPosition, MakeLossGradient<TOFU_ELEMENT>)
