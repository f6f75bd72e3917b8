/*!
 * \file multi_fetch.cuh
 * \brief The kernel of _tofu_multi_fetch: one launch assembles a region out of pieces that lie on
 * any number of devices, read through their addresses.
 *
 * A block takes a tile of one piece, neighbouring threads neighbouring items, so that narrow rows
 * are read by neighbours as well: a row is not a unit of work, an item is.
 */
#ifndef TOFU_CUDA_MULTI_FETCH_CUH_
#define TOFU_CUDA_MULTI_FETCH_CUH_

#include "fetch_table.cuh"
#include "numbers.cuh"

namespace tofu {
namespace cuda {

constexpr int kSourcesAtOnce = 4;  // loads of a thread that are under way together

struct TakeSum {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

/*! \brief The larger one; no number if one of them is none. */
struct TakeMaximum {
  template <typename T>
  TOFU_DEVICE T operator()(T a, T b) const {
    return a >= b || a != a ? a : b;
  }
};

/*! \brief The elements of an item, in the type of their sum. Items are handed over by value: read
 * at once, never byte by byte. */
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

/*! \brief A tile of a piece as its thread sees it. */
template <typename Item>
struct Tile {
  TOFU_DEVICE Tile(const FetchArguments& arguments, const PieceRecord& piece)
      : arguments(arguments),
        piece(piece),
        first((BlockIndex(0) - piece.first_tile) * kTileItems + ThreadIndex()) {}

  /*! \brief Number `i` of the items of this thread; not all of them have to be there. */
  TOFU_DEVICE unsigned item(int i) const { return first + i * kFetchThreads; }
  TOFU_DEVICE bool has(int i) const { return item(i) < piece.num_items; }

  TOFU_DEVICE Item Read(const SourceRecord& source, const ItemPosition& position) const {
    const char* input = arguments.inputs[source.input];
    return *reinterpret_cast<const Item*>(
        input + position.Offset(source.offset, source.strides, piece.rank));
  }

  TOFU_DEVICE Item& Target(const ItemPosition& position) const {
    return *reinterpret_cast<Item*>(arguments.output +
                                    position.Offset(piece.offset, piece.strides, piece.rank));
  }

  const FetchArguments& arguments;
  const PieceRecord& piece;
  unsigned first;
};

/*! \brief One source, written as it is: all loads of a thread are under way before a store. */
template <typename Item>
TOFU_DEVICE void CopyTile(const Tile<Item>& tile) {
  const SourceRecord& source = tile.arguments.sources[tile.piece.first_source];
  Item items[kItemsPerThread];
  TOFU_UNROLL
  for (int i = 0; i < kItemsPerThread; ++i) {
    if (tile.has(i)) items[i] = tile.Read(source, ItemPosition(tile.piece, tile.item(i)));
  }
  TOFU_UNROLL
  for (int i = 0; i < kItemsPerThread; ++i) {
    if (tile.has(i)) tile.Target(ItemPosition(tile.piece, tile.item(i))) = items[i];
  }
}

/*! \brief The sources of one item, put together in the order in which they stand. */
template <typename T, typename Item, typename Combine>
TOFU_DEVICE void CombineSources(const Tile<Item>& tile, const ItemPosition& position,
                                Combine combine, Elements<T, Item>* result) {
  const SourceRecord* sources = tile.arguments.sources + tile.piece.first_source;
  result->Load(tile.Read(sources[0], position));
  int s = 1;
  for (; s + kSourcesAtOnce <= tile.piece.num_sources; s += kSourcesAtOnce) {
    Item items[kSourcesAtOnce];
    TOFU_UNROLL
    for (int i = 0; i < kSourcesAtOnce; ++i) items[i] = tile.Read(sources[s + i], position);
    TOFU_UNROLL
    for (int i = 0; i < kSourcesAtOnce; ++i) result->Merge(items[i], combine);
  }
  for (; s < tile.piece.num_sources; ++s) result->Merge(tile.Read(sources[s], position), combine);
}

/*! \brief Any number of sources, or none, written or added. */
template <typename T, typename Item>
TOFU_DEVICE void CombineTile(const Tile<Item>& tile) {
  const FetchArguments& arguments = tile.arguments;
  for (int i = 0; i < kItemsPerThread; ++i) {
    if (!tile.has(i)) return;
    const ItemPosition position(tile.piece, tile.item(i));
    Elements<T, Item> result;
    if (tile.piece.num_sources == 0) {
      result.Fill(arguments.fill);
    } else if (arguments.takes_maximum) {
      CombineSources(tile, position, TakeMaximum(), &result);
    } else {
      CombineSources(tile, position, TakeSum(), &result);
    }
    Item& target = tile.Target(position);
    if (arguments.adds) result.Merge(target, TakeSum());
    target = result.Store();
  }
}

/*! \brief Items that are larger than an element, or as large. */
template <typename T, typename Item, bool kFits = (sizeof(Item) >= sizeof(T))>
struct TileOf {
  static TOFU_DEVICE void Compute(const FetchArguments& arguments, const PieceRecord& piece) {
    const Tile<Item> tile(arguments, piece);
    if (piece.num_sources == 1 && !arguments.adds) {
      CopyTile(tile);
    } else {
      CombineTile<T>(tile);
    }
  }
};
template <typename T, typename Item>
struct TileOf<T, Item, false> {
  static TOFU_DEVICE void Compute(const FetchArguments&, const PieceRecord&) {}
};

template <typename T>
TOFU_DEVICE void FetchTile(const FetchArguments& arguments) {
  const PieceRecord& piece =
      arguments.pieces[FindPiece(arguments.pieces, arguments.num_pieces, BlockIndex(0))];
  switch (piece.item_bytes) {
    case 16:
      return TileOf<T, Words4>::Compute(arguments, piece);
    case 8:
      return TileOf<T, Words2>::Compute(arguments, piece);
    case 4:
      return TileOf<T, unsigned>::Compute(arguments, piece);
    case 2:
      return TileOf<T, unsigned short>::Compute(arguments, piece);  // NOLINT(runtime/int)
    default:
      return TileOf<T, unsigned char>::Compute(arguments, piece);
  }
}

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_MULTI_FETCH_CUH_
