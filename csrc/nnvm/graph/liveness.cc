/*!
 * \file liveness.cc
 */
#include "nnvm/graph/liveness.h"

#include <algorithm>

namespace tofu {
namespace nnvm_layer {

std::vector<uint32_t> ListIgnoredInputs(const nnvm::NodeAttrs& attrs) {
  static const auto& ignored = nnvm::Op::GetAttr<nnvm::FIgnoreInputs>("FIgnoreInputs");
  return ignored.contains(attrs.op) ? ignored[attrs.op](attrs) : std::vector<uint32_t>();
}

std::vector<uint32_t> FindLastReaders(const nnvm::IndexedGraph& index) {
  std::vector<uint32_t> last(index.num_node_entries(), 0);
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      last[index.entry_id(id, output)] = node.is_variable() ? index.num_nodes() : id;
    }
    if (node.is_variable()) continue;
    const std::vector<uint32_t> unread = ListIgnoredInputs(node.attrs);
    for (uint32_t input = 0; input < index[id].inputs.size(); ++input) {
      if (std::find(unread.begin(), unread.end(), input) != unread.end()) continue;
      uint32_t& reader = last[index.entry_id(index[id].inputs[input])];
      reader = std::max(reader, id);
    }
  }
  for (const auto& entry : index.outputs()) last[index.entry_id(entry)] = index.num_nodes();
  return last;
}

int64_t EntryBytes(const nnvm::Graph& graph, uint32_t entry, const nnvm::Node& node) {
  const mxnet::TShape& shape = graph.GetAttr<mxnet::ShapeVector>("shape")[entry];
  const int type = graph.GetAttr<nnvm::DTypeVector>("dtype")[entry];
  CHECK(mxnet::shape_is_known(shape) && type != -1)
      << "the memory of " << node.attrs.name << " cannot be planned: its shape is " << shape
      << ", its type code " << type;
  return static_cast<int64_t>(shape.Size() * mshadow::mshadow_sizeof(type));
}

}  // namespace nnvm_layer
}  // namespace tofu
