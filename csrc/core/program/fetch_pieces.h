/*!
 * \file fetch_pieces.h
 * \brief Disjoint pieces of a region, by the boxes that contribute to it.
 */
#ifndef TOFU_CORE_PROGRAM_FETCH_PIECES_H_
#define TOFU_CORE_PROGRAM_FETCH_PIECES_H_

#include <cstddef>
#include <vector>

#include "core/program/program.h"

namespace tofu {

/*! \brief Movement of elements from one tensor to another, in the dimensions of the one that has
 * more. */
struct Movement {
  std::vector<int64_t> distance;  // by dimension
  int source_lacks = -1;          // a dimension, or -1; the source is one element of it
  int target_lacks = -1;

  int rank() const { return static_cast<int>(distance.size()); }

  /*! \brief The place of a box of the source. */
  Box Move(const Interval* source) const;
  /*! \brief A box of the target, with the dimension that it lacks. */
  Box Widen(const Interval* target) const;
  /*! \brief A box of the target, without the dimension that it lacks. */
  Box Narrow(const Box& box) const;
};

/*!
 * \brief Collects the entries that contribute to a region, and moves them into a fetch.
 *
 * Boxes are in the tensor's coordinates. Equal boxes share a piece, whose sources are summed in the
 * order of Add. Boxes that overlap in part are cut until all pieces are disjoint.
 */
class FetchPieces {
 public:
  /*! \param region the fetch's output, which may reach outside the tensor */
  FetchPieces(const Interval* region, int rank) : region_(region, region + rank) {}

  /*! \brief Fill `box`, inside the region, with elements of `entry`, whose first element is at the
   * begin of `entry_box`. */
  void Add(const Interval* box, const Entry& entry, const Interval* entry_box);

  /*! \brief The same for boxes in the dimensions of a movement. */
  void Add(const Box& box, const Entry& entry, const Box& entry_box, const Movement& movement);

  /*! \brief Move shape, inputs and pieces into a fetch. */
  void MoveTo(ProgramNode* fetch);

 private:
  /*! \brief Add a piece with one source, in the fetch's coordinates. */
  void Insert(Piece added, const Entry& entry);

  /*! \brief Move the overlap of a piece and a new one into the piece. The rest of the new one is
   * appended to `rest`, the rest of the piece to the pieces. */
  void Share(size_t piece, const Piece& added, std::vector<Piece>* rest);

  Box region_;
  std::vector<Piece> pieces_;  // in the fetch's coordinates
  std::vector<Entry> inputs_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_FETCH_PIECES_H_
