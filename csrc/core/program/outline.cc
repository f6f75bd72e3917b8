/*!
 * \file outline.cc
 */
#include "core/program/outline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tofu {

namespace {

bool HasShapes(const ProgramNode& node, const std::vector<BoxView>& outputs) {
  if (node.shapes.size() != outputs.size()) return false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<int64_t>& shape = node.shapes[i];
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != outputs[i].intervals[d].extent()) return false;
    }
  }
  return true;
}

void PutEntries(const std::vector<Entry>& entries, std::vector<int32_t>* code) {
  code->push_back(static_cast<int32_t>(entries.size()));
  for (const Entry& entry : entries) {
    code->push_back(static_cast<int32_t>(entry.node));
    code->push_back(static_cast<int32_t>(entry.index));
  }
}

}  // namespace

Entry OutlineBuilder::AddVariable(int tensor, int worker, const Interval* shard, int rank) {
  return AddNode(NodeKind::kVariable, tensor, worker, {}, {{shard, rank}});
}

Entry OutlineBuilder::AddFetch(int tensor, int worker, int, double, FetchPieces pieces) {
  const Box& region = pieces.region();
  return AddNode(NodeKind::kFetch, tensor, worker, pieces.inputs(),
                 {{region.data(), static_cast<int>(region.size())}});
}

Entry OutlineBuilder::AddCopy(int op, int worker, int, std::vector<Entry> inputs,
                              const std::vector<BoxView>& outputs) {
  return AddNode(NodeKind::kOperator, op, worker, inputs, outputs);
}

void OutlineBuilder::AddOutput(const Entry& entry) {
  NoteInput(entry, nullptr);
  OwnerOf(entry).outputs.push_back(NumberWithin(entry));
}

int32_t OutlineBuilder::FindKind(NodeKind kind, int id, int worker,
                                 const std::vector<BoxView>& outputs) {
  std::vector<std::vector<int32_t>>& by_id = kinds_by_id_[static_cast<int>(kind)];
  if (static_cast<size_t>(id) >= by_id.size()) by_id.resize(id + 1);
  for (int32_t known : by_id[id]) {
    if (HasShapes(kinds_[known], outputs)) return known;
  }
  ProgramNode node;
  node.kind = kind;
  node.id = id;
  node.worker = worker;
  for (const BoxView& output : outputs) node.AddOutput(output.intervals, output.rank);
  kinds_.push_back(std::move(node));
  by_id[id].push_back(static_cast<int32_t>(kinds_.size()) - 1);
  return by_id[id].back();
}

/*! \brief Note a read by a worker's next node, or by the caller if `reader` is null. */
void OutlineBuilder::NoteInput(const Entry& entry, Worker* reader) {
  Worker& owner = OwnerOf(entry);
  const Entry within = NumberWithin(entry);
  const ProgramNode& kind = kinds_[owner.kinds[within.node]];
  owner.is_read[within.node] = 1;
  NoteRead(kind, within.index);
  if (reader == nullptr || reader == &owner || kind.kind == NodeKind::kVariable) return;
  if (std::find(owner.reads.begin(), owner.reads.end(), within) == owner.reads.end())
    owner.reads.push_back(within);
}

Entry OutlineBuilder::AddNode(NodeKind kind, int id, int worker, const std::vector<Entry>& inputs,
                              const std::vector<BoxView>& outputs) {
  Worker& own = workers_[worker];
  if (kind != NodeKind::kVariable) PutReads(&own.reads, &own);
  own.code.push_back(FindKind(kind, id, worker, outputs));
  const size_t count = own.code.size();
  own.code.push_back(0);
  for (const Entry& input : inputs) {
    NoteInput(input, &own);
    if (&OwnerOf(input) != &own) continue;
    ++own.code[count];
    own.code.push_back(static_cast<int32_t>(NumberWithin(input).node));
    own.code.push_back(static_cast<int32_t>(input.index));
  }
  own.kinds.push_back(own.code[count - 1]);
  own.is_read.push_back(0);
  return {static_cast<int64_t>((own.kinds.size() - 1) * workers_.size()) + worker, 0};
}

/*! \brief Append reads by others, in an order that does not depend on the readers. */
void OutlineBuilder::PutReads(std::vector<Entry>* entries, Worker* worker) {
  if (entries->empty()) return;
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.node, a.index) < std::tie(b.node, b.index);
  });
  worker->code.push_back(kReadByOthers);
  PutEntries(*entries, &worker->code);
  entries->clear();
}

Outlines OutlineBuilder::Take() {
  Outlines result;
  std::map<std::vector<int32_t>, int32_t> numbers;
  for (Worker& worker : workers_) {
    PutReads(&worker.reads, &worker);
    for (size_t id = 0; id < worker.kinds.size(); ++id) {
      const ProgramNode& kind = kinds_[worker.kinds[id]];
      if (worker.is_read[id] || kind.kind == NodeKind::kVariable) continue;
      worker.outputs.push_back({static_cast<int64_t>(id), FindReadOutput(kind)});
    }
    worker.code.push_back(kReadByOthers);
    PutEntries(worker.outputs, &worker.code);
    const auto number = static_cast<int32_t>(numbers.size());
    result.outline_of_worker.push_back(
        numbers.try_emplace(std::move(worker.code), number).first->second);
    worker = {};
  }
  result.outlines.resize(numbers.size());
  while (!numbers.empty()) {
    auto outline = numbers.extract(numbers.begin());
    result.outlines[outline.mapped()] = std::move(outline.key());
  }
  result.kinds = std::move(kinds_);
  return result;
}

}  // namespace tofu
