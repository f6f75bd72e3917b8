/*!
 * \file shards.cc
 */
#include "core/program/shards.h"

#include <algorithm>

namespace tofu {

std::vector<int64_t> DescribePlaced(const Graph& graph, const Incidence& incidence,
                                    const std::vector<int>& choice,
                                    const std::vector<int>& layout) {
  std::vector<int64_t> description = DescribeIncidence(graph, incidence);
  description.insert(description.end(), choice.begin(), choice.end());
  description.insert(description.end(), layout.begin(), layout.end());
  return description;
}

TensorShards::Placed& TensorShards::Place(int tensor) {
  Placed& placed = tensors_[tensor];
  if (placed.layout != nullptr) return placed;
  placed.layout = &FindLayout(tensor);
  placed.entries.resize(grid_.num_workers());
  return placed;
}

const TensorShards::Layout& TensorShards::FindLayout(int tensor) {
  const std::vector<int64_t>& shape = graph_.tensor(tensor).shape;
  const std::vector<int>& layout = assignment_.tensors[tensor];
  const auto [found, is_new] = layouts_.try_emplace({shape, layout});
  Layout& placed = found->second;
  if (!is_new) return placed;
  placed.shards = SplitTensor(graph_, grid_, tensor, layout);
  placed.index = BoxIndex(placed.shards);
  const bool overlaps = graph_.splits_equally() && HasRest(shape, grid_, layout);
  placed.own = overlaps ? OwnBoxes(placed.shards) : placed.shards;
  placed.replica =
      NumberDigits(grid_, layout.size(), [&](int round) { return layout[round] == kReplicated; });
  return placed;
}

Entry TensorShards::Shard(int tensor, int worker) {
  Placed& placed = Place(tensor);
  Entry& entry = placed.entries[worker];
  if (entry.node < 0) {
    const Boxes& shards = placed.layout->shards;
    entry = builder_->AddVariable(tensor, worker, shards[worker], shards.rank());
  }
  return entry;
}

Entry TensorShards::FetchRegion(int tensor, int worker, int phase, const Interval* region,
                                double fill, Owners* owners) {
  const int rank = ShardBoxes(tensor).rank();
  const FetchDetail detail = builder_->DetailOf(worker);
  FetchPieces pieces(region, rank, detail);
  const Box moved(region, region + rank);
  const Movement movement = {std::vector<int64_t>(rank, 0)};
  if (detail == FetchDetail::kPieces) {
    AddRegion(tensor, worker, moved, movement, &pieces);
  } else if (detail == FetchDetail::kEntries) {
    if (!owners->is_known) {
      ForEachPart(tensor, worker, moved, movement,
                  [&](int owner, const Box&, const Box&) { owners->workers.push_back(owner); });
      owners->is_known = true;
    }
    for (int owner : owners->workers) pieces.AddInput(Shard(tensor, owner));
  }
  return builder_->AddFetch(tensor, worker, phase, fill, std::move(pieces));
}

void TensorShards::AddRegion(int tensor, int worker, const Box& moved, const Movement& movement,
                             FetchPieces* pieces) {
  ForEachPart(tensor, worker, moved, movement, [&](int owner, const Box& part, const Box& shard) {
    pieces->Add(part, Shard(tensor, owner), shard, movement);
  });
}

/*! \brief Call visit(owner, part, shard) for the parts of a region that a worker reads from shards.
 */
template <typename Visit>
void TensorShards::ForEachPart(int tensor, int worker, const Box& moved, const Movement& movement,
                               const Visit& visit) {
  const Layout& layout = *Place(tensor).layout;
  Box overlap(movement.rank());
  const Box own_shard = movement.Move(layout.shards[worker]);
  for (int owner : layout.index.Find(movement.MoveBack(moved).data())) {
    if (layout.replica[owner] != layout.replica[worker]) continue;
    const Box shard = movement.Move(layout.shards[owner]);
    const Box readable_box = owner == worker ? shard : movement.Move(layout.own[owner]);
    if (!Intersect(moved.data(), readable_box.data(), movement.rank(), overlap.data())) continue;
    if (owner == worker || !graph_.splits_equally()) {
      visit(owner, overlap, shard);
      continue;
    }
    std::vector<Box> missing_boxes;
    Subtract(overlap, own_shard, &missing_boxes);  // removes the elements of this worker's shard
    for (const Box& missing_box : missing_boxes) visit(owner, missing_box, shard);
  }
}

TensorShards::Assembly& TensorShards::FindAssembly(const ProducedOutput& produced) {
  const Output& output = graph_.op(produced.op).outputs[produced.index];
  const std::vector<int>& choice = assignment_.operators[produced.op];
  const std::vector<int>& layout = assignment_.tensors[output.tensor];
  const Incidence incidence = MakeWrite(produced.op, output);
  const auto [found, is_new] =
      assemblies_.try_emplace(DescribePlaced(graph_, incidence, choice, layout));
  Assembly& assembly = found->second;
  if (!is_new) return assembly;
  assembly.access = PlaceAccess(graph_, incidence, grid_, choice);
  assembly.index = BoxIndex(assembly.access.regions.front());
  assembly.layout = PlaceLayout(graph_, output.tensor, grid_, layout);
  assembly.is_scattered = assembly.layout.can_scatter && IsPartialResult(output, choice);
  assembly.holders.resize(grid_.num_workers());
  assembly.joined.resize(grid_.num_workers());
  return assembly;
}

/*! \brief Fetch `box` of an output, summed over its holders, on one worker. Return the worker's own
 * entry if it is the box and there is no other holder. */
Entry TensorShards::Gather(const ProducedOutput& produced, Assembly* assembly, int worker,
                           const Interval* box) {
  const Operator& op = graph_.op(produced.op);
  const Boxes& regions = *produced.regions;
  const PlacedAccess& access = assembly->access;
  const FetchDetail detail = builder_->DetailOf(worker);
  FetchPieces pieces(box, regions.rank(), detail);
  Owners& holders = assembly->holders[worker];
  if (detail == FetchDetail::kPieces || !holders.is_known) {
    holders.workers.clear();
    for (int holder : assembly->index.Find(box)) {
      if (access.replica[holder] != access.replica[worker]) continue;
      for (const Box& taken : TakenBoxes(access, worker, holder, box)) {
        holders.workers.push_back(holder);
        if (detail == FetchDetail::kPieces)
          pieces.Add(taken.data(), produced.entries[holder], regions[holder]);
      }
    }
    holders.is_known = true;
  }
  if (detail == FetchDetail::kEntries) {
    for (int holder : holders.workers) pieces.AddInput(produced.entries[holder]);
  }
  const bool is_own = IsEqualBox(box, regions[worker], regions.rank()) &&
                      std::all_of(holders.workers.begin(), holders.workers.end(),
                                  [worker](int holder) { return holder == worker; });
  if (is_own) return produced.entries[worker];
  return builder_->AddFetch(op.outputs[produced.index].tensor, worker, op.phase, 0,
                            std::move(pieces));
}

/*! \brief Gather a replicated shard from the workers that have summed its parts. */
Entry TensorShards::JoinParts(int tensor, int phase, int worker, Assembly* assembly,
                              const std::vector<Entry>& parts) {
  const PlacedLayout& layout = assembly->layout;
  const int rank = layout.shards.rank();
  const Interval* shard = layout.shards[worker];
  if (parts[worker].node >= 0 && IsEqualBox(layout.scattered[worker], shard, rank))
    return parts[worker];
  Owners& holders = assembly->joined[worker];
  if (!holders.is_known) {
    for (int holder : Place(tensor).layout->index.Find(shard)) {
      if (parts[holder].node < 0 || !IsEqualBox(layout.shards[holder], shard, rank)) continue;
      holders.workers.push_back(holder);
    }
    holders.is_known = true;
  }
  FetchPieces pieces(shard, rank, builder_->DetailOf(worker));
  for (int holder : holders.workers) {
    pieces.Add(layout.scattered[holder], parts[holder], layout.scattered[holder]);
  }
  return builder_->AddFetch(tensor, worker, phase, 0, std::move(pieces));
}

void TensorShards::Assemble(const ProducedOutput& produced) {
  const Output& output = graph_.op(produced.op).outputs[produced.index];
  const int phase = graph_.op(produced.op).phase;
  Assembly& assembly = FindAssembly(produced);
  const Boxes& boxes = assembly.is_scattered ? assembly.layout.scattered : assembly.layout.shards;
  std::vector<Entry> parts(grid_.num_workers());
  for (int worker = 0; worker < boxes.count(); ++worker) {
    if (IsEmptyBox(boxes[worker], boxes.rank())) continue;
    parts[worker] = Gather(produced, &assembly, worker, boxes[worker]);
  }
  Placed& placed = Place(output.tensor);
  for (int worker = 0; worker < grid_.num_workers(); ++worker) {
    placed.entries[worker] = assembly.is_scattered
                                 ? JoinParts(output.tensor, phase, worker, &assembly, parts)
                                 : parts[worker];
    for (const Entry& entry : {produced.entries[worker], parts[worker]}) {
      if (entry.node >= 0 && !(entry == placed.entries[worker])) builder_->MarkTransit(entry);
    }
  }
}

}  // namespace tofu
