/*!
 * \file fetch_info.cc
 */
#include "nnvm/fetch_info.h"

#include "nnvm/place_device.h"

namespace tofu {
namespace nnvm_layer {
namespace {

std::string GroupOf(const nnvm::Node& node) {
  const auto group = node.attrs.dict.find(kGroupAttribute);
  return group == node.attrs.dict.end() ? "" : group->second;
}

}  // namespace

std::vector<FetchInfo> ListFetches(SymbolHandle symbol) {
  const nnvm::Graph graph = InferGraphTypes(InferGraph(GraphOf(symbol), {}, {}), {});
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  const auto& shapes = graph.GetAttr<mxnet::ShapeVector>("shape");
  const auto& types = graph.GetAttr<nnvm::DTypeVector>("dtype");
  std::vector<FetchInfo> fetches;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    if (node.op() != MultiFetchOp()) continue;
    FetchInfo fetch;
    fetch.name = node.attrs.name;
    fetch.group = GroupOf(node);
    fetch.dtype = types[index.entry_id(id, 0)];
    fetch.param = MultiFetchParamOf(node.attrs);
    for (const auto& entry : index[id].inputs) {
      const nnvm::Node& producer = *index[entry.node_id].source;
      fetch.inputs.push_back(FetchInput{producer.attrs.name, entry.index, GroupOf(producer),
                                        FromShape(shapes[index.entry_id(entry)])});
    }
    fetches.push_back(std::move(fetch));
  }
  return fetches;
}

}  // namespace nnvm_layer
}  // namespace tofu
