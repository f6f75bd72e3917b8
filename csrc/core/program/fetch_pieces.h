/*!
 * \file fetch_pieces.h
 * \brief Cuts a region into disjoint pieces by the boxes that contribute to it.
 */
#ifndef TOFU_CORE_PROGRAM_FETCH_PIECES_H_
#define TOFU_CORE_PROGRAM_FETCH_PIECES_H_

#include <cstddef>
#include <vector>

#include "core/program/program.h"

namespace tofu {

/*! \brief How cells of one tensor come to lie in another: in the dimensions of the one that has
 * more. */
struct Movement {
  std::vector<int64_t> distance;  // by dimension
  int source_lacks = -1;          // a dimension, or -1; there the source is one cell
  int target_lacks = -1;

  int rank() const { return static_cast<int>(distance.size()); }

  /*! \brief Where a box of the source comes to lie. */
  Box Move(const Interval* source) const;
  /*! \brief A box of the target with the dimension that it lacks. */
  Box Widen(const Interval* target) const;
  /*! \brief The same without it. */
  Box Narrow(const Box& box) const;
};

/*!
 * \brief Collects what other entries contribute to one region, and hands it to a fetch.
 *
 * All boxes that it is given are in the tensor's coordinates. Boxes that are equal share a piece,
 * whose sources are summed in the order of Add; boxes that overlap in part are cut until the pieces
 * are disjoint.
 */
class FetchPieces {
 public:
  /*! \param region the fetch's output, which may reach outside the tensor. */
  FetchPieces(const Interval* region, int rank) : region_(region, region + rank) {}

  /*! \brief `box`, inside the region, gets the cells of `entry`, whose cell 0 stands at the begin
   * of `entry_box`. */
  void Add(const Interval* box, const Entry& entry, const Interval* entry_box);

  /*! \brief The same of a box in the dimensions of a movement, as is `entry_box`. */
  void Add(const Box& box, const Entry& entry, const Box& entry_box, const Movement& movement);

  /*! \brief Sets shape, inputs and pieces of a fetch; nothing is left here. */
  void MoveTo(ProgramNode* fetch);

 private:
  /*! \brief Adds a piece of one source, in the fetch's coordinates. */
  void Insert(Piece added, const Entry& entry);

  /*! \brief Takes what a piece and a new one have in common out of the new one and gives it to the
   * piece; what is left of both goes to the lists. */
  void Share(size_t piece, const Piece& added, std::vector<Piece>* rest);

  Box region_;
  std::vector<Piece> pieces_;  // in the fetch's coordinates
  std::vector<Entry> inputs_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_FETCH_PIECES_H_
