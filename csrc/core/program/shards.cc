/*!
 * \file shards.cc
 * \brief Reading and assembly of shards.
 */
#include "core/program/shards.h"

#include <utility>

namespace tofu {

TensorShards::Placed& TensorShards::Place(int tensor) {
  Placed& placed = tensors_[tensor];
  if (placed.is_placed) return placed;
  placed.is_placed = true;
  const std::vector<int>& layout = assignment_.tensors[tensor];
  placed.shards = SplitTensor(graph_, grid_, tensor, layout);
  const bool overlaps =
      graph_.splits_equally() && HasRest(graph_.tensor(tensor).shape, grid_, layout);
  placed.own = overlaps ? OwnBoxes(placed.shards) : placed.shards;
  placed.replica =
      NumberDigits(grid_, layout.size(), [&](int round) { return layout[round] == kReplicated; });
  placed.entries.resize(grid_.num_workers());
  return placed;
}

Entry TensorShards::Shard(int tensor, int worker) {
  Placed& placed = Place(tensor);
  Entry& entry = placed.entries[worker];
  if (entry.node < 0) {
    entry = builder_->AddVariable(tensor, worker, placed.shards[worker], placed.shards.rank());
  }
  return entry;
}

Entry TensorShards::FetchRegion(int tensor, int worker, int phase, const Interval* region,
                                double fill) {
  const int rank = ShardBoxes(tensor).rank();
  FetchPieces pieces(region, rank);
  AddRegion(tensor, worker, Box(region, region + rank), {std::vector<int64_t>(rank, 0)}, &pieces);
  return builder_->AddFetch(tensor, worker, phase, fill, std::move(pieces));
}

void TensorShards::AddRegion(int tensor, int worker, const Box& moved, const Movement& movement,
                             FetchPieces* pieces) {
  const Placed& placed = Place(tensor);
  Box overlap(movement.rank());
  const Box own_shard = movement.Move(placed.shards[worker]);
  for (int owner = 0; owner < grid_.num_workers(); ++owner) {
    if (placed.replica[owner] != placed.replica[worker]) continue;
    const Box shard = movement.Move(placed.shards[owner]);
    const Box readable_box = owner == worker ? shard : movement.Move(placed.own[owner]);
    if (!Intersect(moved.data(), readable_box.data(), movement.rank(), overlap.data())) continue;
    if (owner == worker || !graph_.splits_equally()) {
      pieces->Add(overlap, Shard(tensor, owner), shard, movement);
      continue;
    }
    std::vector<Box> missing_boxes;
    Subtract(overlap, own_shard, &missing_boxes);  // removes the elements of this worker's shard
    for (const Box& missing_box : missing_boxes)
      pieces->Add(missing_box, Shard(tensor, owner), shard, movement);
  }
}

/*! \brief Fetch `box` of an output, summed over its holders, on one worker. Return the worker's own
 * entry if it is the box and there is no other holder. */
Entry TensorShards::Gather(const ProducedOutput& produced, const PlacedAccess& access, int worker,
                           const Interval* box) {
  const Operator& op = graph_.op(produced.op);
  const int rank = produced.regions.rank();
  FetchPieces pieces(box, rank);
  bool is_own = IsEqualBox(box, produced.regions[worker], rank);
  for (int holder = 0; holder < grid_.num_workers(); ++holder) {
    if (access.replica[holder] != access.replica[worker]) continue;
    for (const Box& taken : TakenBoxes(access, worker, holder, box)) {
      is_own = is_own && holder == worker;
      pieces.Add(taken.data(), produced.entries[holder], produced.regions[holder]);
    }
  }
  if (is_own) return produced.entries[worker];
  return builder_->AddFetch(op.outputs[produced.index].tensor, worker, op.phase, 0,
                            std::move(pieces));
}

/*! \brief Gather a replicated shard from the workers that have summed its parts. */
Entry TensorShards::JoinParts(int tensor, int phase, int worker, const PlacedLayout& layout,
                              const std::vector<Entry>& parts) {
  const int rank = layout.shards.rank();
  const Interval* shard = layout.shards[worker];
  if (IsEqualBox(layout.scattered[worker], shard, rank)) return parts[worker];
  FetchPieces pieces(shard, rank);
  for (int holder = 0; holder < grid_.num_workers(); ++holder) {
    if (parts[holder].node < 0 || !IsEqualBox(layout.shards[holder], shard, rank)) continue;
    pieces.Add(layout.scattered[holder], parts[holder], layout.scattered[holder]);
  }
  return builder_->AddFetch(tensor, worker, phase, 0, std::move(pieces));
}

void TensorShards::Assemble(const ProducedOutput& produced) {
  const Output& output = graph_.op(produced.op).outputs[produced.index];
  const std::vector<int>& choice = assignment_.operators[produced.op];
  Incidence incidence;
  incidence.is_write = true;
  incidence.op = produced.op;
  incidence.tensor = output.tensor;
  incidence.write = &output;
  const PlacedAccess access = PlaceAccess(graph_, incidence, grid_, choice);
  const PlacedLayout layout =
      PlaceLayout(graph_, output.tensor, grid_, assignment_.tensors[output.tensor]);
  const bool is_scattered = layout.can_scatter && IsPartialResult(output, choice);
  const Boxes& boxes = is_scattered ? layout.scattered : layout.shards;
  std::vector<Entry> parts(grid_.num_workers());
  for (int worker = 0; worker < grid_.num_workers(); ++worker) {
    if (IsEmptyBox(boxes[worker], boxes.rank())) continue;
    parts[worker] = Gather(produced, access, worker, boxes[worker]);
  }
  Placed& placed = Place(output.tensor);
  for (int worker = 0; worker < grid_.num_workers(); ++worker) {
    placed.entries[worker] =
        is_scattered ? JoinParts(output.tensor, graph_.op(produced.op).phase, worker, layout, parts)
                     : parts[worker];
    for (const Entry& entry : {produced.entries[worker], parts[worker]}) {
      if (entry.node >= 0 && !(entry == placed.entries[worker])) builder_->MarkTransit(entry);
    }
  }
}

}  // namespace tofu
