/*!
 * \file marked_outputs.cc
 */
#include "nnvm/execution/marked_outputs.h"

#include <map>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>

#include "nnvm/graph/graph_info.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::Node;
using nnvm::ObjectPtr;

/*! \brief The attribute that lists marked outputs, each followed by a space. */
const char* AttributeOf(OutputMark mark) {
  switch (mark) {
    case OutputMark::kTransit:
      return "__tofu_transit__";
    case OutputMark::kRequested:
      return "__tofu_asked__";
    case OutputMark::kKept:
      return "__tofu_kept__";
  }
  LOG(FATAL) << "no such mark";
  return "";
}

}  // namespace

void MarkOutput(OutputMark mark, uint32_t output, nnvm::NodeAttrs* attrs) {
  attrs->dict[AttributeOf(mark)] += std::to_string(output) + " ";
}

std::vector<uint32_t> ListMarkedOutputs(OutputMark mark, const nnvm::NodeAttrs& attrs) {
  std::vector<uint32_t> outputs;
  const std::string* marked = FindText(attrs, AttributeOf(mark));
  if (marked == nullptr) return outputs;
  std::istringstream text(*marked);
  for (uint32_t output; text >> output;) outputs.push_back(output);
  return outputs;
}

std::vector<uint32_t> ListMarkedEntries(OutputMark mark, const nnvm::IndexedGraph& index) {
  std::vector<uint32_t> entries;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    for (uint32_t output : ListMarkedOutputs(mark, index[id].source->attrs))
      entries.push_back(index.entry_id(id, output));
  }
  return entries;
}

KeepingGraph KeepOutputs(SymbolHandle graph, uint32_t begin, uint32_t end) {
  std::vector<nnvm::NodeEntry> outputs = SymbolOf(graph).Copy().outputs;
  CHECK(begin <= end && end <= outputs.size())
      << "outputs [" << begin << ", " << end << ") of " << outputs.size();
  KeepingGraph made;
  made.symbol = NewHandle(outputs);
  std::unordered_set<const Node*> needed;  // by earlier outputs
  nnvm::DFSVisit({outputs.begin(), outputs.begin() + begin},
                 [&](const ObjectPtr& node) { needed.insert(node.get()); });
  std::map<std::pair<const Node*, uint32_t>, int> uses;
  for (const nnvm::NodeEntry& output : outputs) ++uses[{output.node.get(), output.index}];
  for (uint32_t i = begin; i < end; ++i) {
    Node* node = outputs[i].node.get();
    if (node->is_variable() || needed.count(node) != 0) continue;
    if (uses[{node, outputs[i].index}] > 1) continue;
    MarkOutput(OutputMark::kKept, outputs[i].index, &node->attrs);
    made.kept.push_back(i);
  }
  return made;
}

}  // namespace tofu::nnvm_layer
