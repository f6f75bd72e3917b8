/*!
 * \file pieces.cc
 * \brief Box subtraction, and the pieces of a fetch.
 */
#include "core/program/pieces.h"

#include <utility>

namespace tofu {

void FetchPieces::Subtract(Box box, const Box& inner, std::vector<Box>* rest) {
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].begin < inner[d].begin) {
      rest->push_back(box);
      rest->back()[d].end = inner[d].begin;
      box[d].begin = inner[d].begin;
    }
    if (inner[d].end < box[d].end) {
      rest->push_back(box);
      rest->back()[d].begin = inner[d].end;
      box[d].end = inner[d].end;
    }
  }
}

void FetchPieces::Split(size_t part, const Box& box, int input, std::vector<Box>* rest) {
  Box overlap(box.size());
  for (size_t d = 0; d < box.size(); ++d) overlap[d] = Intersect(parts_[part].box[d], box[d]);
  Subtract(box, overlap, rest);
  std::vector<Box> kept;
  Subtract(parts_[part].box, overlap, &kept);
  for (Box& other : kept) parts_.push_back({std::move(other), parts_[part].inputs});
  parts_[part].box = std::move(overlap);
  parts_[part].inputs.push_back(input);
}

void FetchPieces::Add(const Interval* box, const Entry& entry, const Interval* entry_box) {
  const int input = static_cast<int>(inputs_.size());
  inputs_.push_back(entry);
  std::vector<int64_t> origin(rank());
  for (int d = 0; d < rank(); ++d) origin[d] = entry_box[d].begin;
  origins_.push_back(std::move(origin));
  // Parts that Split appends are visited in their turn: they may still overlap what is left of the
  // box.
  std::vector<Box> left = {Box(box, box + rank())};
  for (size_t part = 0; part < parts_.size() && !left.empty(); ++part) {
    std::vector<Box> rest;
    for (const Box& other : left) {
      if (IntersectionVolume(parts_[part].box.data(), other.data(), rank()) == 0) {
        rest.push_back(other);
      } else {
        Split(part, other, input, &rest);
      }
    }
    left = std::move(rest);
  }
  for (Box& other : left) parts_.push_back({std::move(other), {input}});
}

void FetchPieces::WriteTo(ProgramNode* fetch) const {
  std::vector<int64_t> shape(rank());
  for (int d = 0; d < rank(); ++d) shape[d] = region_[d].extent();
  fetch->shapes = {std::move(shape)};
  fetch->inputs = inputs_;
  for (const Part& part : parts_) {
    Piece piece;
    for (int d = 0; d < rank(); ++d) {
      piece.begin.push_back(part.box[d].begin - region_[d].begin);
      piece.extent.push_back(part.box[d].extent());
    }
    for (int input : part.inputs) {
      Source source;
      source.input = input;
      for (int d = 0; d < rank(); ++d)
        source.begin.push_back(part.box[d].begin - origins_[input][d]);
      piece.sources.push_back(std::move(source));
    }
    fetch->pieces.push_back(std::move(piece));
  }
}

}  // namespace tofu
