/*!
 * \file engine_view.cc
 */
#include "nnvm/memory/engine_view.h"

#include <algorithm>
#include <utility>

#include "nnvm/execution/operator_clone.h"
#include "nnvm/graph/graph_info.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::IndexedGraph;

class Viewer {
 public:
  explicit Viewer(const PlannedGraph& planned)
      : index_(planned.graph.indexed_graph()),
        storage_(planned.graph.GetAttr<nnvm::StorageVector>("storage_id")),
        is_added_(planned.graph.GetAttr<std::vector<int>>("addto_entry")),
        is_skipped_(planned.graph.GetAttr<std::vector<int>>("skip_plus_node")) {
    for (int buffer : storage_) next_buffer_ = std::max(next_buffer_, buffer + 1);
    view_.group.assign(planned.group_of_node.begin(), planned.group_of_node.end());
  }

  EngineView View() {
    for (uint32_t id = 0; id < index_.num_nodes(); ++id) {
      AddNode(id);
      if (!index_[id].source->is_variable()) AddOperator(id);
    }
    view_.first_entry.push_back(view_.buffer.size());
    view_.first_read.push_back(view_.read.size());
    for (const auto& entry : index_.outputs()) view_.outputs.push_back(index_.entry_id(entry));
    return std::move(view_);
  }

 private:
  void AddNode(uint32_t id) {
    const nnvm::Node& node = *index_[id].source;
    view_.names.push_back(node.attrs.name);
    view_.is_variable.push_back(node.is_variable());
    view_.is_skipped.push_back(is_skipped_[id]);
    view_.first_entry.push_back(view_.buffer.size());
    view_.first_read.push_back(view_.read.size());
    view_.in_place.emplace_back();
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      const uint32_t entry = index_.entry_id(id, output);
      const bool is_apart = node.is_variable() || storage_[entry] < 0;
      view_.buffer.push_back(is_apart ? next_buffer_++ : storage_[entry]);
      view_.is_added.push_back(is_added_[entry]);
    }
  }

  void AddOperator(uint32_t id) {
    const nnvm::NodeAttrs& attrs = index_[id].source->attrs;
    const size_t begin = view_.read.size();
    for (const auto& entry : index_[id].inputs) {
      view_.read.push_back(index_.entry_id(entry));
      view_.access.push_back(static_cast<int64_t>(Access::kRead));
    }
    KernelMemory kernel = DescribeKernel(attrs);
    for (uint32_t input : kernel.ignored) {
      view_.access.at(begin + input) = static_cast<int64_t>(Access::kShape);
    }
    std::vector<uint32_t> changed = ListMutableInputs(attrs);
    for (uint32_t input : ListSetInputs(attrs)) changed.push_back(input);
    for (uint32_t input : changed) {
      view_.access.at(begin + input) = static_cast<int64_t>(Access::kChange);
    }
    for (uint32_t input : ListSpoiledInputs(attrs)) {
      view_.access.at(begin + input) = static_cast<int64_t>(Access::kSpoil);
    }
    view_.in_place.back() = std::move(kernel.in_place);
  }

  const IndexedGraph& index_;
  const nnvm::StorageVector& storage_;
  const std::vector<int>& is_added_;
  const std::vector<int>& is_skipped_;
  int next_buffer_ = 0;
  EngineView view_;
};

}  // namespace

EngineView ViewAsEngine(const PlannedGraph& planned) { return Viewer(planned).View(); }

}  // namespace tofu::nnvm_layer
