/*!
 * \file program_builder.cc
 */
#include "core/program/program_builder.h"

#include <algorithm>
#include <numeric>

namespace tofu {

namespace {

ProgramNode MakeNode(NodeKind kind, int id, int worker, int phase) {
  ProgramNode node;
  node.kind = kind;
  node.id = id;
  node.worker = worker;
  node.phase = phase;
  return node;
}

}  // namespace

Entry ProgramBuilder::AddNode(ProgramNode node) {
  for (const Entry& input : node.inputs) NoteInput(input);
  program_.nodes.push_back(std::move(node));
  return {static_cast<int64_t>(program_.nodes.size()) - 1, 0};
}

Entry ProgramBuilder::AddVariable(int tensor, int worker, const Interval* shard, int rank) {
  ProgramNode node = MakeNode(NodeKind::kVariable, tensor, worker, 0);
  node.AddOutput(shard, rank);
  return AddNode(std::move(node));
}

Entry ProgramBuilder::AddFetch(int tensor, int worker, int phase, double fill, FetchPieces pieces) {
  ProgramNode node = MakeNode(NodeKind::kFetch, tensor, worker, phase);
  node.set_fill(fill);
  pieces.MoveTo(&node);
  return AddNode(std::move(node));
}

Entry ProgramBuilder::AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                              const std::vector<BoxView>& outputs) {
  ProgramNode node = MakeNode(NodeKind::kOperator, op, worker, phase);
  node.inputs = std::move(inputs);
  for (const BoxView& output : outputs) node.AddOutput(output.intervals, output.rank);
  return AddNode(std::move(node));
}

void ProgramBuilder::AddOutput(const Entry& entry) {
  NoteInput(entry);
  program_.outputs.push_back(entry);
}

/*! \brief Sort the nodes. `order` lists their old positions in the new order. */
void ProgramBuilder::Reorder(const std::vector<size_t>& order) {
  std::vector<int64_t> new_position(order.size());
  std::vector<ProgramNode> nodes;
  nodes.reserve(order.size());
  for (size_t id : order) {
    new_position[id] = static_cast<int64_t>(nodes.size());
    nodes.push_back(std::move(program_.nodes[id]));
  }
  program_.nodes = std::move(nodes);
  for (ProgramNode& node : program_.nodes) {
    for (Entry& input : node.inputs) input.node = new_position[input.node];
  }
  for (std::vector<Entry>* entries : {&program_.outputs, &program_.transit}) {
    for (Entry& entry : *entries) entry.node = new_position[entry.node];
  }
}

void ProgramBuilder::GroupByWorker() {
  constexpr int64_t kFetchPhase = -1;
  const std::vector<ProgramNode>& nodes = program_.nodes;
  std::vector<std::pair<int64_t, int64_t>> keys;  // (run, worker); every fetch starts a run
  int64_t run = 0;
  int64_t phase = kFetchPhase;
  for (const ProgramNode& node : nodes) {
    if (node.kind != NodeKind::kVariable) {
      const int64_t node_phase = node.kind == NodeKind::kFetch ? kFetchPhase : node.phase;
      if (node_phase == kFetchPhase || node_phase != phase) ++run;
      phase = node_phase;
    }
    keys.emplace_back(run, node.worker);
  }
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  Reorder(order);
}

void ProgramBuilder::KeepUnread() {
  std::vector<char> is_read(program_.nodes.size(), 0);
  for (const ProgramNode& node : program_.nodes) {
    for (const Entry& input : node.inputs) is_read[input.node] = 1;
  }
  for (const Entry& output : program_.outputs) is_read[output.node] = 1;
  for (size_t id = 0; id < program_.nodes.size(); ++id) {
    const ProgramNode& node = program_.nodes[id];
    if (is_read[id] || node.kind == NodeKind::kVariable) continue;
    program_.outputs.push_back({static_cast<int64_t>(id), FindReadOutput(node)});
  }
}

}  // namespace tofu
