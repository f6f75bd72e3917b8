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

  /*! \brief Sets shape, inputs and pieces of a fetch; nothing is left here. */
  void MoveTo(ProgramNode* fetch);

 private:
  /*! \brief Takes what a piece and a new one have in common out of the new one and gives it to the
   * piece; what is left of both goes to the lists. */
  void Share(size_t piece, const Piece& added, std::vector<Piece>* rest);

  Box region_;
  std::vector<Piece> pieces_;  // in the fetch's coordinates
  std::vector<Entry> inputs_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_FETCH_PIECES_H_
