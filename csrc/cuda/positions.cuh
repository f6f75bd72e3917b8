/*!
 * \file positions.cuh
 * \brief Read indices into a dimension, and find their positions in a part of it.
 */
#pragma once

#include "numbers.cuh"

namespace tofu::cuda {

// Meanings of an index out of range: the nearest position, the position modulo the extent, or none.
// With kLength, an index means the last of this many positions.
constexpr int kClipped = 0;
constexpr int kWrapped = 1;
constexpr int kExact = 2;
constexpr int kLength = 3;

/*! \brief A part of a dimension, and indices into the complete dimension. */
struct Positions {
  Index first;   // where the part begins
  Index extent;  // of the part
  Index whole;   // of the dimension
  Index count;   // number of indices
  int meaning;   // of an index
  int type;      // MXNet's type code of the indices
  Index lines;   // adjacent lines that share an index

  /*! \brief Return the position of index `i` in the part, or -1 if it is in another part. */
  TOFU_DEVICE Index Locate(const void* indices, Index i) const {
    Index index = Read(indices, i);
    if (meaning == kWrapped) {
      index %= whole;
      if (index < 0) index += whole;
    } else if (meaning == kClipped) {
      index = index < 0 ? 0 : index < whole ? index : whole - 1;
    } else if (meaning == kLength) {
      --index;
    }
    return index >= first && index < first + extent ? index - first : -1;
  }

  /*! \brief Read index `i`, without its fraction. */
  TOFU_DEVICE Index Read(const void* indices, Index i) const {
    switch (type) {
      case 0:
        return static_cast<Index>(static_cast<const float*>(indices)[i]);
      case 1:
        return static_cast<Index>(static_cast<const double*>(indices)[i]);
      case 2:
        return static_cast<Index>(static_cast<float>(static_cast<const Half*>(indices)[i]));
      case 3:
        return static_cast<const unsigned char*>(indices)[i];
      case 4:
        return static_cast<const int*>(indices)[i];
      case 5:
        return static_cast<const signed char*>(indices)[i];
      default:
        return static_cast<const Index*>(indices)[i];
    }
  }

  /*! \brief Return the position of the index of a line along the dimension, as Locate does. */
  TOFU_DEVICE Index LocateOnLine(const void* indices, Index line) const {
    return Locate(indices, line / lines);
  }

  /*! \brief Count the positions of the part before the one that index `i` counts to. */
  TOFU_DEVICE Index CountBefore(const void* indices, Index i) const {
    return Read(indices, i) - first;
  }
};

}  // namespace tofu::cuda
