/*!
 * \file sort_positions.cuh
 * \brief Bitonic sort of indices by row and number.
 *
 * K. E. Batcher, "Sorting networks and their applications" (1968). All keys differ, so the result
 * does not depend on the order of threads. Keys within a block's span are sorted in shared memory.
 * Wider steps are separate launches.
 */
#pragma once

#include "group_loops.cuh"

namespace tofu::cuda {

constexpr int kSortSpan = 1024;  // keys per block; more blocks pay more than fewer steps

/*! \brief Row and number of an index, compared in this order. */
TOFU_DEVICE Index KeyOf(Index row, Index number) { return (row << 32) | number; }
TOFU_DEVICE Index IndexOfKey(Index key) { return key & 0xffffffffLL; }

/*! \brief The key of index `n`. Indices without a row in this part come after all others, then the
 * padding. */
TOFU_DEVICE Index MakeKey(const PartArguments& a, Index n) {
  if (n >= a.positions.count) return KeyOf(a.positions.extent + 1, n);
  const Index row = a.positions.Locate(a.tensors[1], n);
  return KeyOf(row < 0 ? a.positions.extent : row, n);
}

/*! \brief Order two keys, ascending if `rises`. */
TOFU_DEVICE void OrderKeys(Index* first, Index* second, bool rises) {
  const Index a = *first;
  const Index b = *second;
  if ((a > b) != rises) return;
  *first = b;
  *second = a;
}

/*! \brief The first key of pair `pair`. `stride` is a power of two, so no division is needed. */
TOFU_DEVICE Index LowOfPair(Index pair, Index stride) {
  const Index within = pair & (stride - 1);
  return ((pair - within) << 1) | within;
}

/*! \brief Sort all spans up to a block's, starting from indices, if `sorting.span` is 0. Otherwise
 * run the steps of that span within a block. */
TOFU_DEVICE void SortBlocks(const PartArguments& a) {
  TOFU_SHARED Index keys[kSortSpan];
  const Index first = BlockIndex(0) * static_cast<Index>(kSortSpan);
  const Sorting& sorting = a.sorting;
  for (int i = static_cast<int>(ThreadIndex()); i < kSortSpan; i += kPartThreads) {
    keys[i] = sorting.span == 0 ? MakeKey(a, first + i) : sorting.keys[first + i];
  }
  const Index from = sorting.span == 0 ? 2 : sorting.span;
  const Index to = sorting.span == 0 ? kSortSpan : sorting.span;
  for (Index span = from; span <= to; span *= 2) {
    for (Index stride = (span < kSortSpan ? span : kSortSpan) / 2; stride > 0; stride /= 2) {
      SyncThreads();
      for (Index pair = ThreadIndex(); pair < kSortSpan / 2; pair += kPartThreads) {
        const Index low = LowOfPair(pair, stride);
        OrderKeys(&keys[low], &keys[low + stride], ((first + low) & span) == 0);
      }
    }
  }
  SyncThreads();
  for (int i = static_cast<int>(ThreadIndex()); i < kSortSpan; i += kPartThreads) {
    sorting.keys[first + i] = keys[i];
  }
}

/*! \brief Return true if a step runs together with the one of half its stride, which also exceeds a
 * block's span. */
TOFU_DEVICE bool TakesTwoStrides(Index stride) { return stride / 2 >= kSortSpan; }

/*! \brief Run one or two steps between keys that are further apart than a block's span. */
TOFU_DEVICE void SortApart(const PartArguments& a) {
  const Sorting& sorting = a.sorting;
  const Index threads = static_cast<Index>(NumBlocks(0)) * kPartThreads;
  const Index first = static_cast<Index>(BlockIndex(0)) * kPartThreads + ThreadIndex();
  if (!TakesTwoStrides(sorting.stride)) {
    for (Index pair = first; pair < sorting.size / 2; pair += threads) {
      Index* keys = sorting.keys + LowOfPair(pair, sorting.stride);
      OrderKeys(keys, keys + sorting.stride, ((keys - sorting.keys) & sorting.span) == 0);
    }
    return;
  }
  const Index half = sorting.stride / 2;
  for (Index four = first; four < sorting.size / 4; four += threads) {
    const Index low = LowOfPair(LowOfPair(four, half), sorting.stride);
    Index* keys = sorting.keys + low;
    const bool rises = (low & sorting.span) == 0;
    Index own[4] = {keys[0], keys[half], keys[2 * half], keys[3 * half]};
    OrderKeys(&own[0], &own[2], rises);
    OrderKeys(&own[1], &own[3], rises);
    OrderKeys(&own[0], &own[1], rises);
    OrderKeys(&own[2], &own[3], rises);
    TOFU_UNROLL
    for (int k = 0; k < 4; ++k) keys[k * half] = own[k];
  }
}

/*! \brief Find the first key of each row, and of no row. */
TOFU_DEVICE void FindRows(const PartArguments& a) {
  const Index threads = static_cast<Index>(NumBlocks(0)) * kPartThreads;
  for (Index row = static_cast<Index>(BlockIndex(0)) * kPartThreads + ThreadIndex();
       row <= a.positions.extent; row += threads) {
    Index low = 0;
    for (Index high = a.sorting.size; low < high;) {
      const Index middle = low + (high - low) / 2;
      if (a.sorting.keys[middle] < KeyOf(row, 0)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    a.sorting.begins[row] = low;
  }
}

}  // namespace tofu::cuda
