/*!
 * \file by_position.cu
 * \brief Entry points of one_hot and SequenceMask in parts, for data of type TOFU_TYPE.
 */
#include "by_position.cuh"

TOFU_PART(tofu_one_hot, MapGroups, OnLine, OneHot<TOFU_ELEMENT>)
TOFU_PART(tofu_sequence_mask, MapGroups, OnLine, SequenceMask<TOFU_ELEMENT>)
