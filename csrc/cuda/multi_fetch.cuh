/*!
 * \file multi_fetch.cuh
 * \brief The kernel of _tofu_multi_fetch, which assembles a region from pieces on any devices.
 *
 * Each block of threads processes a tile of one piece. Adjacent threads take adjacent items, in
 * narrow rows as well.
 */
#pragma once

#include "fetch_table.cuh"
#include "numbers.cuh"

namespace tofu::cuda {

struct TakeSum {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

/*! \brief Returns the larger number, or NaN if one is NaN. */
struct TakeMaximum {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return a >= b || a != a ? a : b;
  }
};

/*! \brief Returns the smaller number, or NaN if one is NaN. */
struct TakeMinimum {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return a <= b || a != a ? a : b;
  }
};

struct TakeProduct {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};

/*! \brief The elements of an item, in the type of their sum. Items are passed by value, so that
 * they are read at once. */
template <typename T, typename Item>
struct Elements {
  typedef typename SumType<T>::type Sum;
  static constexpr int kCount = sizeof(Item) / sizeof(T);

  TOFU_DEVICE void Load(Item item) {
    T elements[kCount];
    CopyBytes(elements, &item, sizeof(Item));
    TOFU_UNROLL
    for (int e = 0; e < kCount; ++e) values[e] = static_cast<Sum>(elements[e]);
  }

  TOFU_DEVICE void Fill(double value) {
    TOFU_UNROLL
    for (int e = 0; e < kCount; ++e) values[e] = static_cast<Sum>(static_cast<T>(value));
  }

  template <typename Combine>
  TOFU_DEVICE void Merge(Item item, Combine combine) {
    Elements other;
    other.Load(item);
    TOFU_UNROLL
    for (int e = 0; e < kCount; ++e) values[e] = combine(values[e], other.values[e]);
  }

  TOFU_DEVICE Item Store() const {
    T elements[kCount];
    TOFU_UNROLL
    for (int e = 0; e < kCount; ++e) elements[e] = static_cast<T>(values[e]);
    Item item;
    CopyBytes(&item, elements, sizeof(Item));
    return item;
  }

  Sum values[kCount];
};

/*! \brief A thread's items of a tile: kItemsPerThread, whose loads are under way together. */
template <typename Item>
struct Tile {
  TOFU_DEVICE Tile(const FetchArguments& arguments, const PieceRecord& piece)
      : arguments(arguments),
        piece(piece),
        first((BlockIndex(0) - piece.first_tile) * kTileItems + ThreadIndex()) {
    // Items beyond the end are read like the last item, but not written.
    TOFU_UNROLL
    for (int i = 0; i < kItemsPerThread; ++i) at[i] = has(i) ? item(i) : piece.num_items - 1;
  }

  TOFU_DEVICE unsigned item(int i) const { return first + i * kFetchThreads; }
  TOFU_DEVICE bool has(int i) const { return item(i) < piece.num_items; }

  TOFU_DEVICE void Read(const char* tensor, Index begin, const Index* strides, Item* items) const {
    Index offsets[kItemsPerThread];
    LocateItems<kItemsPerThread>(piece, begin, strides, at, offsets);
    TOFU_UNROLL
    for (int i = 0; i < kItemsPerThread; ++i) {
      items[i] = *reinterpret_cast<const Item*>(tensor + offsets[i]);
    }
  }
  TOFU_DEVICE void ReadSource(int s, Item* items) const {
    const SourceRecord& source = arguments.sources[piece.first_source + s];
    Read(arguments.inputs[source.input], source.offset, source.strides, items);
  }
  TOFU_DEVICE void ReadOutput(Item* items) const {
    Read(arguments.output, piece.offset, piece.strides, items);
  }

  TOFU_DEVICE void Write(const Item* items) const {
    Index offsets[kItemsPerThread];
    LocateItems<kItemsPerThread>(piece, piece.offset, piece.strides, at, offsets);
    TOFU_UNROLL
    for (int i = 0; i < kItemsPerThread; ++i) {
      if (has(i)) *reinterpret_cast<Item*>(arguments.output + offsets[i]) = items[i];
    }
  }

  const FetchArguments& arguments;
  const PieceRecord& piece;
  unsigned first;
  unsigned at[kItemsPerThread];
};

/*! \brief Copy one source. */
template <typename Item>
TOFU_DEVICE void CopyTile(const Tile<Item>& tile) {
  Item items[kItemsPerThread];
  tile.ReadSource(0, items);
  tile.Write(items);
}

template <typename T, typename Item, typename Combine>
TOFU_DEVICE void MergeItems(const Item* items, Combine combine, Elements<T, Item>* results) {
  TOFU_UNROLL
  for (int i = 0; i < kItemsPerThread; ++i) results[i].Merge(items[i], combine);
}

/*! \brief Combine the sources in order. */
template <typename T, typename Item, typename Combine>
TOFU_DEVICE void CombineSources(const Tile<Item>& tile, Combine combine,
                                Elements<T, Item>* results) {
  Item items[kItemsPerThread];
  tile.ReadSource(0, items);
  TOFU_UNROLL
  for (int i = 0; i < kItemsPerThread; ++i) results[i].Load(items[i]);
  TOFU_ROLLED
  for (int s = 1; s < tile.piece.num_sources; ++s) {
    tile.ReadSource(s, items);
    MergeItems(items, combine, results);
  }
}

/*! \brief Combine any number of sources, or fill, and write or add the result. */
template <typename T, typename Item>
TOFU_DEVICE void CombineTile(const Tile<Item>& tile) {
  const FetchArguments& arguments = tile.arguments;
  Elements<T, Item> results[kItemsPerThread];
  if (tile.piece.num_sources == 0) {
    if (arguments.adds && arguments.fill == 0) return;
    TOFU_UNROLL
    for (int i = 0; i < kItemsPerThread; ++i) results[i].Fill(arguments.fill);
  } else if (arguments.reducer == 1) {
    CombineSources(tile, TakeMaximum(), results);
  } else if (arguments.reducer == 2) {
    CombineSources(tile, TakeMinimum(), results);
  } else if (arguments.reducer == 3) {
    CombineSources(tile, TakeProduct(), results);
  } else {
    CombineSources(tile, TakeSum(), results);
  }
  Item items[kItemsPerThread];
  if (arguments.adds) {
    tile.ReadOutput(items);
    MergeItems(items, TakeSum(), results);
  }
  TOFU_UNROLL
  for (int i = 0; i < kItemsPerThread; ++i) items[i] = results[i].Store();
  tile.Write(items);
}

/*! \brief Compute a tile of items. They are not smaller than an element. */
template <typename T, typename Item>
TOFU_DEVICE void ComputeTile(const FetchArguments& arguments, const PieceRecord& piece) {
  if constexpr (sizeof(Item) >= sizeof(T)) {
    const Tile<Item> tile(arguments, piece);
    if (piece.num_sources == 1 && !arguments.adds) {
      CopyTile(tile);
    } else {
      CombineTile<T>(tile);
    }
  }
}

template <typename T>
TOFU_DEVICE void FetchTile(const FetchArguments& arguments) {
  const PieceRecord& piece =
      arguments.pieces[FindPiece(arguments.pieces, arguments.num_pieces, BlockIndex(0))];
  switch (piece.item_bytes) {
    case 16:
      return ComputeTile<T, Words4>(arguments, piece);
    case 8:
      return ComputeTile<T, Words2>(arguments, piece);
    case 4:
      return ComputeTile<T, unsigned>(arguments, piece);
    case 2:
      return ComputeTile<T, unsigned short>(arguments, piece);  // NOLINT(runtime/int)
    default:
      return ComputeTile<T, unsigned char>(arguments, piece);
  }
}

}  // namespace tofu::cuda
