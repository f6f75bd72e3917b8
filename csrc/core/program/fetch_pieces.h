/*!
 * \file fetch_pieces.h
 * \brief Division of a region into disjoint pieces, from the boxes that contribute to it.
 */
#pragma once

#include <cstddef>
#include <vector>

#include "core/program/program.h"

namespace tofu {

/*! \brief Shift of elements from a source tensor to a target tensor. Its dimensions are those of
 * the tensor with more dimensions. */
struct Movement {
  std::vector<int64_t> distance;  // by dimension
  int source_lacks = -1;          // a dimension along which the source is one slice, or -1
  int target_lacks = -1;

  int rank() const { return static_cast<int>(distance.size()); }

  /*! \brief Return the place to which a box of the source is shifted. */
  Box Move(const Interval* source) const;
  /*! \brief Return the box of the source that is shifted to a place. */
  Box MoveBack(const Box& moved) const;
  /*! \brief Add the dimension that the target lacks to a box of the target. */
  Box Widen(const Interval* target) const;
  /*! \brief Remove the dimension that the target lacks from a box. */
  Box Narrow(const Box& box) const;
};

/*! \brief What is written about a fetch, besides its region. */
enum class FetchDetail {
  kNone,
  kEntries,  // the entries that it reads
  kPieces,   // also the place of each in the region
};

/*!
 * \brief Collects the entries that contribute to a region, and writes them into a fetch.
 *
 * Boxes are in the tensor's coordinates. Equal boxes share a piece, whose sources are summed in the
 * order in which they were added. Boxes that overlap in part are cut until all pieces are disjoint.
 */
class FetchPieces {
 public:
  /*! \param region the box of the fetch's output, which may exceed the tensor */
  FetchPieces(const Interval* region, int rank, FetchDetail detail = FetchDetail::kPieces)
      : region_(region, region + rank), detail_(detail) {}

  /*! \brief Let `entry` contribute to `box`, which is inside the region. The entry holds the box
   * `entry_box` of the tensor. */
  void Add(const Interval* box, const Entry& entry, const Interval* entry_box);

  /*! \brief Add elements of `entry`. The boxes have the dimensions of the movement. */
  void Add(const Box& box, const Entry& entry, const Box& entry_box, const Movement& movement);

  /*! \brief The entries in the order in which they were added. */
  const std::vector<Entry>& inputs() const { return inputs_; }
  const Box& region() const { return region_; }

  /*! \brief Add an entry to a fetch without pieces. */
  void AddInput(const Entry& entry) {
    if (detail_ != FetchDetail::kNone) inputs_.push_back(entry);
  }

  /*! \brief Move shape, inputs and pieces into a fetch. */
  void MoveTo(ProgramNode* fetch);

 private:
  /*! \brief Add a piece with one source, in the fetch's coordinates. */
  void Insert(Piece added, const Entry& entry);

  /*! \brief Give the overlap of a piece and `added` the sources of both. The rest of `added` is
   * appended to `rest`, and the rest of the piece to `pieces_`. */
  void Share(size_t piece, const Piece& added, std::vector<Piece>* rest);

  Box region_;
  FetchDetail detail_;
  std::vector<Piece> pieces_;  // in the fetch's coordinates
  std::vector<Entry> inputs_;
};

}  // namespace tofu
