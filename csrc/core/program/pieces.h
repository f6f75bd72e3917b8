/*!
 * \file pieces.h
 * \brief Cuts a region into disjoint pieces by the boxes that contribute to it.
 */
#ifndef TOFU_CORE_PROGRAM_PIECES_H_
#define TOFU_CORE_PROGRAM_PIECES_H_

#include <cstdint>
#include <vector>

#include "core/geometry/geometry.h"
#include "core/program/program.h"

namespace tofu {

/*!
 * \brief Collects what other entries contribute to one region, and writes it into a fetch.
 *
 * All boxes are in the tensor's coordinates. Boxes that are equal share a piece, whose sources are
 * summed in the order of Add; boxes that overlap in part are cut until the pieces are disjoint.
 */
class FetchPieces {
 public:
  /*! \param region the fetch's output, which may reach outside the tensor. */
  FetchPieces(const Interval* region, int rank) : region_(region, region + rank) {}

  bool IsEmpty() const { return inputs_.empty(); }

  /*! \brief `box`, inside the region, gets the cells of `entry`, whose cell 0 stands at the begin
   * of `entry_box`. */
  void Add(const Interval* box, const Entry& entry, const Interval* entry_box);

  /*! \brief Sets shape, inputs and pieces of a fetch. */
  void WriteTo(ProgramNode* fetch) const;

 private:
  using Box = std::vector<Interval>;
  struct Part {
    Box box;
    std::vector<int> inputs;
  };

  int rank() const { return static_cast<int>(region_.size()); }
  /*! \brief Takes the overlap of part and box out of the box and gives it to the part; what is left
   * of both goes to the lists. */
  void Split(size_t part, const Box& box, int input, std::vector<Box>* rest);
  static void Subtract(Box box, const Box& inner, std::vector<Box>* rest);

  Box region_;
  std::vector<Part> parts_;
  std::vector<Entry> inputs_;
  std::vector<std::vector<int64_t>> origins_;  // by input
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_PIECES_H_
