/*!
 * \file cell_batch.cuh
 * \brief Read and write several elements of a group at once.
 *
 * A tensor is seen as [outer][extent][inner] (see nnvm/parts/dimension_view.h). A group is either
 * all elements at one position of the middle dimension, or a line along this dimension.
 */
#pragma once

#include "part_arguments.cuh"

namespace tofu::cuda {

/*! \brief The place of an element in the tensor. */
struct Place {
  Index cell;
  Index other;  // its line if groups are positions, its position if groups are lines
  Index outer;
};

/*! \brief The elements at one position. */
struct AtPosition {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.extent; }

  TOFU_DEVICE AtPosition(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        group(group),
        o(first / a.inner),
        i(first % a.inner),
        step_o(step / a.inner),
        step_i(step % a.inner) {}
  TOFU_DEVICE bool is_inside() const { return o < arguments.outer; }
  TOFU_DEVICE Place place() const {
    return Place{(o * arguments.extent + group) * arguments.inner + i, o * arguments.inner + i, o};
  }
  TOFU_DEVICE void Next() {
    o += step_o;
    i += step_i;
    if (i < arguments.inner) return;
    i -= arguments.inner;
    ++o;
  }

  const PartArguments& arguments;
  Index group, o, i, step_o, step_i;
};

/*! \brief The elements of one line. */
struct OnLine {
  static TOFU_DEVICE Index NumGroups(const PartArguments& a) { return a.outer * a.inner; }

  TOFU_DEVICE OnLine(const PartArguments& a, Index group, Index first, Index step)
      : arguments(a),
        outer(a.inner == 1 ? group : group / a.inner),
        origin(outer * a.extent * a.inner + (group - outer * a.inner)),
        position(first),
        step(step) {}
  TOFU_DEVICE bool is_inside() const { return position < arguments.extent; }
  TOFU_DEVICE Place place() const {
    return Place{origin + position * arguments.inner, position, outer};
  }
  TOFU_DEVICE void Next() { position += step; }

  const PartArguments& arguments;
  Index outer, origin, position, step;
};

constexpr int kBytesOfBatch = 16;  // bytes of neighbours that a thread accesses at once
constexpr int kCellsApart = 4;     // elements that a thread accesses at once if not neighbours

/*! \brief Return true if 16 bytes of the first inputs can be read at once. */
template <int kStreams>
TOFU_DEVICE bool AreAligned(const PartArguments& arguments) {
  typedef unsigned long long Number;  // NOLINT(runtime/int)
  Number bits = 0;
  TOFU_UNROLL
  for (int s = 0; s < kStreams; ++s) bits |= reinterpret_cast<Number>(arguments.tensors[s]);
  return bits % kBytesOfBatch == 0;
}

/*! \brief The elements that a thread processes at once, with the inputs that are read for them. */
template <typename T, int kStreams, Packing kPacking>
struct Batch {
  typedef T Element;
  typedef typename SumType<T>::type Real;
  static constexpr bool kPacked = kPacking != Packing::kApart;
  static constexpr int kCells = kPacked ? kBytesOfBatch / sizeof(T) : kCellsApart;
  static constexpr int kGroups = kPacking == Packing::kOfGroups ? kCells : 1;
  static constexpr int kMembers = kPacking == Packing::kOfGroup ? kCells : 1;  // between batches
  static constexpr int kPlaces = kPacked ? 1 : kCells;

  /*! \brief Take the next elements. If the first neighbour is inside the tensor, so are all. */
  template <typename Members>
  TOFU_DEVICE void Locate(Members* at) {
    TOFU_UNROLL
    for (int b = 0; b < kPlaces; ++b) {
      inside[b] = at->is_inside();
      places[b] = at->place();
      at->Next();
    }
  }
  TOFU_DEVICE bool has(int b) const { return inside[kPacked ? 0 : b]; }
  TOFU_DEVICE int group(int b) const { return kGroups == 1 ? 0 : b; }
  TOFU_DEVICE Place place(int b) const {
    if constexpr (!kPacked) return places[b];
    return Place{places[0].cell + b, places[0].other + (kMembers == 1 ? 0 : b), places[0].outer};
  }

  /*! \brief Read elements, neighbours at once if `at_once`. */
  TOFU_DEVICE void Read(const PartArguments& arguments, bool at_once) {
    TOFU_UNROLL
    for (int s = 0; s < kStreams; ++s) ReadFrom(arguments.Input<T>(s), at_once, cells[s]);
  }

  /*! \brief Write or add values to the first output, neighbours at once. */
  TOFU_DEVICE void Write(const PartArguments& arguments, const Real* values) const {
    T* target = arguments.Output<T>(0);
    T results[kCells] = {};
    const bool adds = arguments.requests[0] == kAdditionRequested;
    if (adds) ReadFrom(target, true, results);
    TOFU_UNROLL
    for (int b = 0; b < kCells; ++b) {
      if (!has(b)) continue;
      results[b] = static_cast<T>(adds ? static_cast<Real>(results[b]) + values[b] : values[b]);
    }
    if constexpr (kPacked) {
      Words4 words;
      CopyBytes(&words, results, sizeof(words));
      WriteWords(target + places[0].cell, words);
    } else {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) {
        if (has(b)) target[places[b].cell] = results[b];
      }
    }
  }

  TOFU_DEVICE void ReadFrom(const T* tensor, bool at_once, T* found) const {
    const auto cell_of = [](const Place& at) { return at.cell; };
    if (kPacked && !at_once) {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) found[b] = tensor[place(b).cell];
    } else {
      ReadAs(tensor, cell_of, found);
    }
  }

  /*! \brief Read elements of a tensor at cell_of(place); for neighbours, the place of the first.
   * Missing elements are replaced by the first one, so that no load waits for a comparison. */
  template <typename CellOf>
  TOFU_DEVICE void ReadAs(const T* tensor, const CellOf& cell_of, T* found) const {
    if constexpr (kPacked) {
      const Words4 words = ReadWords(tensor + cell_of(places[0]));
      CopyBytes(found, &words, sizeof(words));
    } else {
      TOFU_UNROLL
      for (int b = 0; b < kCells; ++b) found[b] = tensor[cell_of(readable(b))];
    }
  }

  /*! \brief Return the place of `b`. It is selected number by number, because selecting a struct
   * would put it in memory. */
  TOFU_DEVICE Place readable(int b) const {
    return Place{inside[b] ? places[b].cell : places[0].cell,
                 inside[b] ? places[b].other : places[0].other,
                 inside[b] ? places[b].outer : places[0].outer};
  }

  /*! \brief The inputs at element `b`. */
  TOFU_DEVICE void Gather(int b, T* streams) const {
    TOFU_UNROLL
    for (int s = 0; s < kStreams; ++s) streams[s] = cells[s][b];
  }

  Place places[kPlaces];
  bool inside[kPlaces];
  T cells[kStreams > 0 ? kStreams : 1][kCells];
};

}  // namespace tofu::cuda
