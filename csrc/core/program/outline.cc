/*!
 * \file outline.cc
 * \brief Nodes of outlines.
 */
#include "core/program/outline.h"

#include <algorithm>
#include <utility>

namespace tofu {

OutlineBuilder::OutlineBuilder(int num_workers, int begin, int end)
    : num_workers_(num_workers), begin_(begin), end_(end), outlines_(end - begin) {}

Entry OutlineBuilder::AddVariable(int tensor, int worker, const Interval* shard, int rank) {
  if (!IsOutlined(worker)) return {worker, 0};
  return AddNode(MakeVariable(tensor, worker, shard, rank));
}

Entry OutlineBuilder::AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) {
  bool is_followed = IsOutlined(worker);
  for (const Entry& input : pieces.inputs()) {
    const int owner = OwnerOf(input);
    if (owner == worker || !IsOutlined(owner)) continue;
    is_followed = true;
    const Entry entry = NumberWithin(input);
    if (OutlineOf(owner).is_variable[entry.node]) continue;
    std::vector<Reads>& reads = OutlineOf(owner).reads;
    auto found = std::find_if(reads.begin(), reads.end(),
                              [&](const Reads& other) { return other.tensor == tensor; });
    if (found == reads.end()) found = reads.insert(reads.end(), {tensor, phase, {}});
    std::vector<Entry>& entries = found->entries;
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  if (!IsOutlined(worker)) return {is_followed ? worker : NotFollowed(worker), 0};
  return AddNode(MakeFetch(tensor, worker, phase, fill, std::move(pieces)));
}

Entry OutlineBuilder::AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                              const std::vector<Box>& outputs) {
  if (!IsOutlined(worker)) return {worker, 0};
  return AddNode(MakeCopy(op, worker, phase, std::move(inputs), outputs));
}

void OutlineBuilder::AddOutput(const Entry& entry) {
  if (IsOutlined(OwnerOf(entry))) OutlineOf(OwnerOf(entry)).outputs.push_back(NumberWithin(entry));
}

void OutlineBuilder::MarkTransit(const Entry& entry) {
  if (IsOutlined(OwnerOf(entry))) OutlineOf(OwnerOf(entry)).transit.push_back(NumberWithin(entry));
}

Entry OutlineBuilder::AddNode(ProgramNode node) {
  const int64_t worker = node.worker;
  Outline& outline = OutlineOf(static_cast<int>(worker));
  std::vector<Entry> own;
  for (const Entry& input : node.inputs) {
    if (OwnerOf(input) == worker) own.push_back(NumberWithin(input));
  }
  node.inputs = std::move(own);
  PutReads(&node, &outline);
  PutNode(node, &outline);
  return {(static_cast<int64_t>(outline.ops.size()) - 1) * num_workers_ + worker, 0};
}

void OutlineBuilder::PutNode(const ProgramNode& node, Outline* outline) {
  detail::PutNode(node, &outline->code);
  outline->ops.push_back(node.kind == NodeKind::kOperator ? node.id : -1);
  outline->is_read.push_back(node.kind == NodeKind::kVariable);
  outline->is_variable.push_back(node.kind == NodeKind::kVariable);
  for (const Entry& input : node.inputs) outline->is_read[input.node] = 1;
}

/*! \brief Add fetches for the reads of other workers before the worker's node `next`, which is null
 * at the end. */
void OutlineBuilder::PutReads(const ProgramNode* next, Outline* outline) {
  if (next != nullptr && next->kind == NodeKind::kVariable) return;  // it takes none of the memory
  const Interval element = {0, 1};
  for (Reads& reads : outline->reads) {
    std::vector<Entry>& entries = reads.entries;
    if (next != nullptr && next->kind == NodeKind::kFetch) {
      const auto is_read = [next](const Entry& entry) {
        return std::find(next->inputs.begin(), next->inputs.end(), entry) != next->inputs.end();
      };
      entries.erase(std::remove_if(entries.begin(), entries.end(), is_read), entries.end());
      if (entries.empty()) continue;
    }
    ProgramNode fetch = MakeFetch(reads.tensor, num_workers_, reads.phase, 0, {&element, 1, false});
    fetch.inputs = std::move(entries);
    PutNode(fetch, outline);
  }
  outline->reads.clear();
}

void OutlineBuilder::KeepUnread(const std::vector<int>& used) {
  for (Outline& outline : outlines_) {
    PutReads(nullptr, &outline);
    for (const Entry& output : outline.outputs) outline.is_read[output.node] = 1;
    for (size_t id = 0; id < outline.ops.size(); ++id) {
      const int64_t op = outline.ops[id];
      if (outline.is_read[id]) continue;
      outline.outputs.push_back({static_cast<int64_t>(id), op < 0 ? 0 : used[op]});
    }
  }
}

std::vector<std::vector<int64_t>> OutlineBuilder::Take() {
  std::vector<std::vector<int64_t>> codes;
  for (Outline& outline : outlines_) {
    std::vector<int64_t> code = {kProgramFormat, num_workers_,
                                 static_cast<int64_t>(outline.ops.size())};
    code.insert(code.end(), outline.code.begin(), outline.code.end());
    detail::PutEntries(outline.outputs, &code);
    detail::PutEntries(outline.transit, &code);
    outline = {};
    codes.push_back(std::move(code));
  }
  return codes;
}

}  // namespace tofu
