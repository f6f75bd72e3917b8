/*!
 * \file take.cu
 * \brief Entry points of lookups in a part of a table, for data of type TOFU_TYPE.
 */
#include "take.cuh"

TOFU_PART(tofu_take, MapGroups, AtPosition, Take<TOFU_ELEMENT>)
TOFU_PART(tofu_take_backward, MapGroups, AtPosition, TakeBackward<TOFU_ELEMENT>)
TOFU_PART(tofu_pick, MapGroups, AtPosition, Pick<TOFU_ELEMENT>)
TOFU_PART(tofu_pick_backward, MapGroups, OnLine, PickBackward<TOFU_ELEMENT>)

TOFU_KERNEL(tofu::cuda::kPartThreads)
TOFU_TYPED(tofu_sort_block)(tofu::cuda::PartArguments arguments) {
  tofu::cuda::SortBlocks(arguments);
}
TOFU_KERNEL(tofu::cuda::kPartThreads)
TOFU_TYPED(tofu_sort_apart)(tofu::cuda::PartArguments arguments) {
  tofu::cuda::SortApart(arguments);
}
TOFU_KERNEL(tofu::cuda::kPartThreads)
TOFU_TYPED(tofu_find_rows)(tofu::cuda::PartArguments arguments) { tofu::cuda::FindRows(arguments); }
