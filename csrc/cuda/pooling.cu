/*!
 * \file pooling.cu
 * \brief Entry points of average pooling's part, for data of type TOFU_TYPE.
 */
#include "pooling.cuh"

TOFU_PART(tofu_divide_by_window, MapGroups, AtPosition, DivideByWindow<TOFU_ELEMENT>)
