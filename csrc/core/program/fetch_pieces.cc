/*!
 * \file fetch_pieces.cc
 */
#include "core/program/fetch_pieces.h"

#include <utility>

namespace tofu {

namespace {

/*! \brief Append the parts of a piece outside of a box. */
void CutAround(const Piece& piece, const Box& inner, std::vector<Piece>* parts) {
  std::vector<Box> boxes;
  Subtract(piece.box, inner, &boxes);
  for (Box& box : boxes) {
    Piece part = piece;
    Narrow(std::move(box), &part);
    parts->push_back(std::move(part));
  }
}

/*! \brief Return a box with an extra dimension [0, 1) at `dimension`, unless this is negative. */
Box Insert(const Interval* box, int rank, int dimension) {
  const int position = dimension < 0 ? rank : dimension;
  Box widened(box, box + position);
  if (dimension >= 0) widened.push_back({0, 1});
  widened.insert(widened.end(), box + position, box + rank);
  return widened;
}

}  // namespace

Box Movement::Move(const Interval* source) const {
  Box box = Insert(source, rank() - (source_lacks >= 0), source_lacks);
  for (int d = 0; d < rank(); ++d) box[d] = Shift(box[d], distance[d]);
  return box;
}

Box Movement::MoveBack(const Box& moved) const {
  Box box = moved;
  for (int d = 0; d < rank(); ++d) box[d] = Shift(box[d], -distance[d]);
  if (source_lacks >= 0) box.erase(box.begin() + source_lacks);
  return box;
}

Box Movement::Widen(const Interval* target) const {
  return Insert(target, rank() - (target_lacks >= 0), target_lacks);
}

Box Movement::Narrow(const Box& box) const {
  Box narrow = box;
  if (target_lacks >= 0) narrow.erase(narrow.begin() + target_lacks);
  return narrow;
}

void FetchPieces::Share(size_t piece, const Piece& added, std::vector<Piece>* rest) {
  Box overlap(region_.size());
  Intersect(pieces_[piece].box.data(), added.box.data(), static_cast<int>(region_.size()),
            overlap.data());
  CutAround(added, overlap, rest);
  std::vector<Piece> remainders;
  CutAround(pieces_[piece], overlap, &remainders);
  for (Piece& part : remainders) pieces_.push_back(std::move(part));
  Piece part = added;
  Narrow(overlap, &part);
  Narrow(std::move(overlap), &pieces_[piece]);
  pieces_[piece].sources.push_back(std::move(part.sources.front()));
}

void FetchPieces::Add(const Interval* box, const Entry& entry, const Interval* entry_box) {
  if (detail_ != FetchDetail::kPieces) return AddInput(entry);
  const int rank = static_cast<int>(region_.size());
  Piece added;
  added.box.resize(rank);
  added.sources.push_back({0, std::vector<int64_t>(rank)});
  for (int d = 0; d < rank; ++d) {
    added.box[d] = Shift(box[d], -region_[d].begin);
    added.sources.front().begin[d] = box[d].begin - entry_box[d].begin;
  }
  Insert(std::move(added), entry);
}

void FetchPieces::Add(const Box& box, const Entry& entry, const Box& entry_box,
                      const Movement& movement) {
  if (detail_ != FetchDetail::kPieces) return AddInput(entry);
  Piece added;
  added.box = movement.Narrow(box);
  for (size_t d = 0; d < region_.size(); ++d) added.box[d] = Shift(added.box[d], -region_[d].begin);
  Source source;
  int64_t target_dimension = 0;  // the dimension of the target
  for (int d = 0; d < movement.rank(); ++d) {
    const int64_t along = d == movement.target_lacks ? kNoDimension : target_dimension++;
    if (d == movement.source_lacks) continue;
    source.begin.push_back(box[d].begin - entry_box[d].begin);
    source.along.push_back(along);
  }
  if (movement.source_lacks < 0 && movement.target_lacks < 0) source.along.clear();
  added.sources.push_back(std::move(source));
  Insert(std::move(added), entry);
}

void FetchPieces::Insert(Piece added, const Entry& entry) {
  added.sources.front().input = static_cast<int64_t>(inputs_.size());
  inputs_.push_back(entry);
  // Pieces that Share appends are visited as well, because they may overlap the remaining pieces.
  std::vector<Piece> remaining_pieces;
  remaining_pieces.push_back(std::move(added));
  for (size_t piece = 0; piece < pieces_.size() && !remaining_pieces.empty(); ++piece) {
    std::vector<Piece> next_pieces;
    for (Piece& remaining : remaining_pieces) {
      if (Meet(pieces_[piece].box, remaining.box)) {
        Share(piece, remaining, &next_pieces);
      } else {
        next_pieces.push_back(std::move(remaining));
      }
    }
    remaining_pieces = std::move(next_pieces);
  }
  for (Piece& remaining : remaining_pieces) pieces_.push_back(std::move(remaining));
}

void FetchPieces::MoveTo(ProgramNode* fetch) {
  fetch->AddOutput(region_.data(), static_cast<int>(region_.size()));
  fetch->inputs = std::move(inputs_);
  fetch->pieces = std::move(pieces_);
}

}  // namespace tofu
