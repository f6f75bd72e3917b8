/*!
 * \file execution_tables.cc
 */
#include "nnvm/execution/execution_tables.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "nnvm/fetch/multi_fetch.h"
#include "nnvm/fetch/place_device.h"

namespace tofu {
namespace nnvm_layer {
namespace {

class Reader {
 public:
  explicit Reader(nnvm::Graph graph)
      : graph_(std::move(graph)),
        index_(graph_.indexed_graph()),
        shapes_(graph_.GetAttr<mxnet::ShapeVector>("shape")),
        types_(graph_.GetAttr<nnvm::DTypeVector>("dtype")) {
    for (uint32_t id = 0; id < index_.num_nodes(); ++id) {
      if (!IsFetch(id)) continue;
      const MultiFetchParam& param = MultiFetchParamOf(Attributes(id));
      rank_ = std::max(rank_, param.shape.ndim());
      for (const Piece& piece : param.pieces) {
        for (const Source& source : piece.sources)
          rank_ = std::max(rank_, static_cast<int>(source.begin.size()));
      }
    }
    for (Table* table : {&tables_.edges, &tables_.control_deps}) table->columns = 2;
    for (Table* table : {&tables_.fetch_shape, &tables_.piece_begin, &tables_.piece_extent,
                         &tables_.source_begin, &tables_.source_along, &tables_.source_shape}) {
      table->columns = rank_;
    }
  }

  ExecutionTables Read() {
    for (uint32_t id = 0; id < index_.num_nodes(); ++id) {
      ReadNode(id);
      if (IsFetch(id)) ReadFetch(id);
    }
    for (const auto& entry : index_.outputs()) {
      tables_.output_node.push_back(entry.node_id);
      tables_.output_shapes.push_back(FromShape(shapes_[index_.entry_id(entry)]));
    }
    return std::move(tables_);
  }

 private:
  const nnvm::NodeAttrs& Attributes(uint32_t id) const { return index_[id].source->attrs; }
  bool IsFetch(uint32_t id) const { return index_[id].source->op() == MultiFetchOp(); }

  void ReadNode(uint32_t id) {
    tables_.node_names.push_back(Attributes(id).name);
    tables_.node_group.push_back(GroupOf(Attributes(id)));
    for (const auto& entry : index_[id].inputs) tables_.edges.Append({id, entry.node_id});
    for (uint32_t other : index_[id].control_deps) tables_.control_deps.Append({id, other});
  }

  int64_t GroupOf(const nnvm::NodeAttrs& attrs) {
    const std::string* group = FindText(attrs, kGroupAttribute);
    if (group == nullptr) return -1;
    const auto added = groups_.emplace(*group, tables_.group_names.size());
    if (added.second) tables_.group_names.push_back(*group);
    return added.first->second;
  }

  void ReadFetch(uint32_t id) {
    const MultiFetchParam& param = MultiFetchParamOf(Attributes(id));
    const int64_t fetch = tables_.fetch_node.size();
    tables_.fetch_node.push_back(id);
    tables_.fetch_type.push_back(types_[index_.entry_id(id, 0)]);
    AppendPadded(FromShape(param.shape).extents, 1, &tables_.fetch_shape);
    for (const Piece& piece : param.pieces) {
      const int64_t position = tables_.piece_fetch.size();
      tables_.piece_fetch.push_back(fetch);
      const int ndim = static_cast<int>(piece.box.size());
      AppendPadded(BeginsOf(piece.box.data(), ndim), 0, &tables_.piece_begin);
      AppendPadded(ExtentsOf(piece.box.data(), ndim), 1, &tables_.piece_extent);
      for (const Source& source : piece.sources) {
        const auto& entry = index_[id].inputs[source.input];
        const MaybeShape shape = FromShape(shapes_[index_.entry_id(entry)]);
        tables_.source_piece.push_back(position);
        tables_.source_node.push_back(entry.node_id);
        AppendPadded(source.begin, 0, &tables_.source_begin);
        AppendAlong(source);
        AppendPadded(shape.extents, shape.has_rank ? 1 : -1, &tables_.source_shape);
      }
    }
  }

  void AppendAlong(const Source& source) {
    std::vector<int64_t> along;
    for (size_t d = 0; d < source.begin.size(); ++d) along.push_back(source.Along(d));
    AppendPadded(along, kNoDimension, &tables_.source_along);
  }

  void AppendPadded(std::vector<int64_t> values, int64_t padding, Table* table) const {
    values.resize(rank_, padding);
    table->Append(values);
  }

  const nnvm::Graph graph_;
  const nnvm::IndexedGraph& index_;
  const mxnet::ShapeVector& shapes_;
  const nnvm::DTypeVector& types_;
  int rank_ = 1;
  std::unordered_map<std::string, int64_t> groups_;
  ExecutionTables tables_;
};

}  // namespace

ExecutionTables ReadExecutionTables(SymbolHandle symbol, const ShapesByName& shapes) {
  return Reader(InferGraphTypes(InferGraph(GraphOf(symbol), shapes, {}), {})).Read();
}

}  // namespace nnvm_layer
}  // namespace tofu
