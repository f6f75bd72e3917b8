/*!
 * \file take.cu
 * \brief Entry points of lookups in a part of a table, for data of type TOFU_TYPE.
 */
#include "take.cuh"

TOFU_PART(tofu_take, MapGroups, AtPosition, Take<TOFU_ELEMENT>)
TOFU_PART(tofu_take_backward, MapGroups, AtPosition, TakeBackward<TOFU_ELEMENT>)
TOFU_PART(tofu_pick, MapGroups, AtPosition, Pick<TOFU_ELEMENT>)
TOFU_PART(tofu_pick_backward, MapGroups, OnLine, PickBackward<TOFU_ELEMENT>)
