/*!
 * \file program_builder.cc
 * \brief Nodes and control dependencies.
 */
#include "program_builder.h"

#include <algorithm>
#include <utility>

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

/*! \brief Data dependencies order nodes by themselves; no dependency is listed twice. */
void DependOn(int64_t other, ProgramNode* node) {
  std::vector<int64_t>& deps = node->control_deps;
  const bool is_input = std::any_of(node->inputs.begin(), node->inputs.end(),
                                    [&](const Entry& entry) { return entry.node == other; });
  if (!is_input && std::find(deps.begin(), deps.end(), other) == deps.end()) deps.push_back(other);
}

}  // namespace

std::vector<int64_t> ExtentsOf(const Interval* box, int rank) {
  std::vector<int64_t> extents(rank);
  for (int d = 0; d < rank; ++d) extents[d] = box[d].extent();
  return extents;
}

ProgramBuilder::ProgramBuilder(int num_workers)
    : last_copies_(num_workers, -1), ordered_fetches_(num_workers) {
  program_.num_workers = num_workers;
}

int ProgramBuilder::AddNode(ProgramNode node) {
  program_.nodes.push_back(std::move(node));
  return static_cast<int>(program_.nodes.size()) - 1;
}

Entry ProgramBuilder::AddVariable(int tensor, int worker, std::vector<int64_t> shape) {
  ProgramNode node = MakeNode(NodeKind::kVariable, tensor, worker, 0);
  node.shapes = {std::move(shape)};
  return {AddNode(std::move(node)), 0};
}

Entry ProgramBuilder::AddFetch(int tensor, int worker, int phase, double fill,
                               const FetchPieces& pieces) {
  ProgramNode node = MakeNode(NodeKind::kFetch, tensor, worker, phase);
  node.set_fill(fill);
  pieces.WriteTo(&node);
  if (last_copies_[worker] >= 0) DependOn(last_copies_[worker], &node);
  return {AddNode(std::move(node)), 0};
}

int ProgramBuilder::AddCopy(int op, int worker, int phase, std::vector<Entry> inputs,
                            std::vector<std::vector<int64_t>> shapes) {
  ProgramNode node = MakeNode(NodeKind::kOperator, op, worker, phase);
  node.inputs = std::move(inputs);
  node.shapes = std::move(shapes);
  if (last_copies_[worker] >= 0) DependOn(last_copies_[worker], &node);
  for (int64_t fetch : ordered_fetches_[worker]) DependOn(fetch, &node);
  ordered_fetches_[worker].clear();
  const int added = AddNode(std::move(node));
  last_copies_[worker] = added;
  return added;
}

void ProgramBuilder::KeepOrdered(const Entry& entry) {
  const ProgramNode& node = program_.nodes[entry.node];
  if (node.kind == NodeKind::kFetch) ordered_fetches_[node.worker].push_back(entry.node);
}

void ProgramBuilder::KeepUnread() {
  std::vector<char> is_read(program_.nodes.size(), 0);
  for (const ProgramNode& node : program_.nodes) {
    for (const Entry& input : node.inputs) is_read[input.node] = 1;
  }
  for (const Entry& output : program_.outputs) is_read[output.node] = 1;
  for (size_t id = 0; id < program_.nodes.size(); ++id) {
    if (is_read[id] || program_.nodes[id].kind == NodeKind::kVariable) continue;
    program_.outputs.push_back({static_cast<int64_t>(id), 0});
  }
}

Program ProgramBuilder::Take() { return std::move(program_); }

}  // namespace tofu
