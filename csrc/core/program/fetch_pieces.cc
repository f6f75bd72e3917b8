/*!
 * \file fetch_pieces.cc
 * \brief The pieces of a fetch.
 */
#include "core/program/fetch_pieces.h"

#include <utility>

namespace tofu {

namespace {

/*! \brief Appends the parts of a piece that lie outside of a box. */
void CutAround(const Piece& piece, const Box& inner, std::vector<Piece>* parts) {
  std::vector<Box> boxes;
  Subtract(piece.box, inner, &boxes);
  for (Box& box : boxes) {
    Piece part = piece;
    Narrow(std::move(box), &part);
    parts->push_back(std::move(part));
  }
}

}  // namespace

void FetchPieces::Share(size_t piece, const Piece& added, std::vector<Piece>* rest) {
  Box overlap(region_.size());
  Intersect(pieces_[piece].box.data(), added.box.data(), static_cast<int>(region_.size()),
            overlap.data());
  CutAround(added, overlap, rest);
  std::vector<Piece> kept;
  CutAround(pieces_[piece], overlap, &kept);
  for (Piece& part : kept) pieces_.push_back(std::move(part));
  Piece part = added;
  Narrow(overlap, &part);
  Narrow(std::move(overlap), &pieces_[piece]);
  pieces_[piece].sources.push_back(std::move(part.sources.front()));
}

void FetchPieces::Add(const Interval* box, const Entry& entry, const Interval* entry_box) {
  const int rank = static_cast<int>(region_.size());
  Piece added;
  added.box.resize(rank);
  added.sources.push_back({static_cast<int64_t>(inputs_.size()), std::vector<int64_t>(rank)});
  for (int d = 0; d < rank; ++d) {
    added.box[d] = Shift(box[d], -region_[d].begin);
    added.sources.front().begin[d] = box[d].begin - entry_box[d].begin;
  }
  inputs_.push_back(entry);
  // Pieces that Share appends are visited in their turn: they may still overlap what is left.
  std::vector<Piece> left;
  left.push_back(std::move(added));
  for (size_t piece = 0; piece < pieces_.size() && !left.empty(); ++piece) {
    std::vector<Piece> rest;
    for (Piece& other : left) {
      if (Meet(pieces_[piece].box, other.box)) {
        Share(piece, other, &rest);
      } else {
        rest.push_back(std::move(other));
      }
    }
    left = std::move(rest);
  }
  for (Piece& other : left) pieces_.push_back(std::move(other));
}

void FetchPieces::MoveTo(ProgramNode* fetch) {
  fetch->shapes = {ExtentsOf(region_.data(), static_cast<int>(region_.size()))};
  fetch->inputs = std::move(inputs_);
  fetch->pieces = std::move(pieces_);
}

}  // namespace tofu
