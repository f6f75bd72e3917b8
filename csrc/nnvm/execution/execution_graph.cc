/*!
 * \file execution_graph.cc
 */
#include "nnvm/execution/execution_graph.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "nnvm/execution/layout_flow.h"
#include "nnvm/execution/marked_outputs.h"
#include "nnvm/execution/operator_clone.h"
#include "nnvm/fetch/multi_fetch.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/graph/graph_info.h"
#include "nnvm/graph/inference.h"

namespace tofu {
namespace nnvm_layer {
namespace {

using nnvm::Node;
using nnvm::ObjectPtr;

// Makes the attributes of all nodes different. MXNet's executor merges nodes with equal operator,
// attributes and inputs, and then adds copies without a worker.
constexpr char kPositionAttribute[] = "__tofu_node__";

/*! \brief Look-ups of nodes and types in the training graph. */
class TrainingGraph {
 public:
  explicit TrainingGraph(const ExecutionInput& input) : graph_(GraphOf(input.training)) {
    NameNodes();
    InferTypes(input);
  }

  const nnvm::IndexedGraph& index() const { return graph_.indexed_graph(); }
  const std::string& name(int64_t node) const { return names_[node]; }

  const Node& Variable(const std::string& name) const {
    const auto found = variables_.find(name);
    CHECK(found != variables_.end()) << "no input of the training graph is called " << name;
    return *found->second;
  }

  std::vector<int> InputTypes(uint32_t node) const {
    std::vector<int> types;
    for (const auto& entry : index()[node].inputs) types.push_back(types_[index().entry_id(entry)]);
    return types;
  }

  std::vector<int> OutputTypes(uint32_t node) const {
    std::vector<int> types;
    for (uint32_t i = 0; i < index()[node].source->num_outputs(); ++i) {
      types.push_back(types_[index().entry_id(node, i)]);
    }
    return types;
  }

 private:
  /*! \brief Rename operators with equal names (MXNet's sums of gradients) as plans do: a, a~2. */
  void NameNodes() {
    std::map<std::string, int> uses;
    for (uint32_t id = 0; id < index().num_nodes(); ++id) {
      const Node* node = index()[id].source;
      std::string name = node->attrs.name;
      if (node->is_variable()) {
        variables_[name] = node;
      } else if (++uses[name] > 1) {
        name += "~" + std::to_string(uses[node->attrs.name]);
      }
      names_.push_back(std::move(name));
    }
  }

  /*! \brief Infer all types from those of variables. An operator's output may have the name of a
   * variable, so the program's variables come first. */
  void InferTypes(const ExecutionInput& input) {
    TypesByName given;
    const auto give = [&](size_t tensor) {
      const std::string& name = input.tensor_names.at(tensor);
      if (variables_.count(name) != 0) given.emplace(name, input.tensor_types.at(tensor));
    };
    for (const ProgramNode& node : input.program.nodes) {
      if (node.kind == NodeKind::kVariable) give(node.id);
    }
    for (size_t tensor = 0; tensor < input.tensor_names.size(); ++tensor) give(tensor);
    graph_ = InferGraphTypes(std::move(graph_), given);
    types_ = graph_.GetAttr<nnvm::DTypeVector>("dtype");
  }

  nnvm::Graph graph_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, const Node*> variables_;
  nnvm::DTypeVector types_;
};

/*! \brief Builder of the execution graph, which adds nodes in the order of the program. */
class Builder {
 public:
  explicit Builder(const ExecutionInput& input) : input_(input), training_(input) {
    for (size_t op = 0; op < input.operator_nodes.size(); ++op) {
      if (input.operator_nodes[op] >= 0) operator_of_node_[input.operator_nodes[op]] = op;
    }
  }

  SymbolHandle Build() {
    for (const ProgramNode& node : input_.program.nodes) nodes_.push_back(MakeNode(node));
    LetLayoutsFlow(input_.program, nodes_);
    for (const Entry& entry : input_.program.transit) {
      MarkOutput(OutputMark::kTransit, entry.index, &nodes_.at(entry.node)->attrs);
    }
    for (const auto& copy : copies_) {
      const auto asked = input_.asked_outputs.find(copy.first.first);
      if (asked == input_.asked_outputs.end()) continue;
      nnvm::NodeAttrs* attrs = &nodes_[copy.second]->attrs;
      for (uint32_t index : asked->second) MarkOutput(OutputMark::kAsked, index, attrs);
    }
    return NewHandle(ToEntries(input_.program.outputs));
  }

 private:
  ObjectPtr MakeNode(const ProgramNode& node) {
    ObjectPtr made = Node::Create();
    switch (node.kind) {
      case NodeKind::kVariable:
        FillVariable(node, made.get());
        break;
      case NodeKind::kOperator:
        FillOperator(node, made.get());
        break;
      case NodeKind::kFetch:
        FillFetch(node, made.get());
        break;
    }
    made->attrs.dict[kGroupAttribute] = NameGroup(node.worker);
    if (node.kind == NodeKind::kVariable) return made;
    made->attrs.dict[kPositionAttribute] = std::to_string(nodes_.size());
    if (last_ != nullptr) AddControlDep(last_, made.get());
    last_ = made;
    return made;
  }

  std::string TensorAtWorker(const ProgramNode& node) const {
    return NameShard(input_.tensor_names.at(node.id), node.worker);
  }

  void FillVariable(const ProgramNode& node, Node* made) const {
    made->attrs = training_.Variable(input_.tensor_names.at(node.id)).attrs;
    made->attrs.name = TensorAtWorker(node);
    std::ostringstream shape;
    shape << ToShape(node.shapes.at(0));
    made->attrs.dict[kShapeAttribute] = shape.str();
    made->attrs.dict[kTypeAttribute] = std::to_string(input_.tensor_types.at(node.id));
  }

  void FillFetch(const ProgramNode& node, Node* made) const {
    MultiFetchParam param;
    param.num_args = static_cast<int>(node.inputs.size());
    param.shape = ToShape(node.shapes.at(0));
    param.dtype = input_.tensor_types.at(node.id);
    param.fill = node.fill();
    const auto reducer = input_.reducers.find(node.id);
    if (reducer != input_.reducers.end()) param.reducer = reducer->second;
    param.pieces = node.pieces;
    param.tensor = input_.tensor_names.at(node.id);
    param.worker = static_cast<int>(node.worker);
    param.phase = static_cast<int>(node.phase);
    made->attrs.name = TensorAtWorker(node) + "#" + std::to_string(nodes_.size());
    SetMultiFetchAttributes(std::move(param), &made->attrs);
    made->inputs = ToEntries(node.inputs);
  }

  void FillOperator(const ProgramNode& node, Node* made) {
    const int64_t id = input_.operator_nodes.at(node.id);
    if (id < 0) {
      FillOwnOperator(node, made);
      return;
    }
    const auto& source = training_.index()[id];
    const Node& whole = *source.source;
    made->attrs = whole.attrs;
    made->attrs.name = NameShard(training_.name(id), node.worker);
    made->inputs = ToEntries(node.inputs);
    CHECK_EQ(made->inputs.size(), whole.inputs.size()) << made->attrs.name << ": wrong inputs";
    if (IsSumInPlace(whole) && !AddsToOutputs(*made->inputs[1].node)) {
      made->attrs.op = nnvm::Op::Get("elemwise_add");
    }
    ChangeAttributes(node, source, &made->attrs);
    if (NeedsShapes(whole.op())) {
      SetCloneOutputs(node.shapes, training_.OutputTypes(id), &made->attrs);
    }
    if (NeedsClone(whole.op())) {
      made->attrs.op = CloneOperator(whole.op());
      if (IsLayerBackward(whole)) {
        made->control_deps.push_back(ForwardCopy(source.control_deps[0], node.worker));
      }
    }
    GiveOwnInputs(node, training_.InputTypes(id), made);
    CheckMutableInputs(*made);
    copies_[{node.id, node.worker}] = nodes_.size();
  }

  /*! \brief Give a node copies of inputs that its kernel overwrites. A fixed gamma, which the
   * kernel sets for good, is copied if it is not a variable. */
  void GiveOwnInputs(const ProgramNode& node, const std::vector<int>& types, Node* made) {
    std::vector<uint32_t> inputs = ListSpoiledInputs(made->attrs);
    for (uint32_t input : ListSetInputs(made->attrs)) {
      if (!made->inputs.at(input).node->is_variable()) inputs.push_back(input);
    }
    for (uint32_t input : inputs) {
      nnvm::NodeEntry* entry = &made->inputs.at(input);
      *entry = nnvm::NodeEntry(MakeCopy(node, input, types.at(input), *entry), 0, 0);
    }
  }

  /*! \brief Copy an input for one node. The copy is a fetch within the worker, since MXNet's passes
   * would remove an identity. */
  ObjectPtr MakeCopy(const ProgramNode& node, uint32_t input, int type,
                     const nnvm::NodeEntry& entry) {
    const Entry& source = node.inputs.at(input);
    const ProgramNode& producer = input_.program.nodes.at(source.node);
    const Extents& extent = producer.shapes.at(source.index);
    MultiFetchParam param;
    param.num_args = 1;
    param.shape = ToShape(extent);
    param.dtype = type;
    param.pieces.push_back({WholeBox(extent), {{0, Extents(extent.size(), 0)}}});
    param.tensor = entry.node->attrs.name;
    param.worker = static_cast<int>(node.worker);
    param.phase = static_cast<int>(node.phase);
    ObjectPtr copy = Node::Create();
    const std::string position = std::to_string(nodes_.size()) + "." + std::to_string(input);
    copy->attrs.name = entry.node->attrs.name + "#" + position;
    SetMultiFetchAttributes(std::move(param), &copy->attrs);
    copy->inputs = {entry};
    copy->attrs.dict[kGroupAttribute] = NameGroup(node.worker);
    copy->attrs.dict[kPositionAttribute] = position;
    if (last_ != nullptr) AddControlDep(last_, copy.get());
    last_ = copy;
    return copy;
  }

  void FillOwnOperator(const ProgramNode& node, Node* made) {
    const auto found = input_.own_operators.find(node.id);
    CHECK(found != input_.own_operators.end())
        << "operator " << node.id << " of the program is not in the training graph";
    const OwnOperator& own = found->second;
    made->attrs.op = nnvm::Op::Get(own.op);
    made->attrs.name = NameShard(own.name, node.worker);
    made->attrs.dict = own.attributes;
    const AttributeChanges* changes = ChangesOf(node);
    if (changes != nullptr) {
      for (const auto& change : *changes) made->attrs.dict[change.first] = change.second;
    }
    if (made->attrs.op->attr_parser != nullptr) made->attrs.op->attr_parser(&made->attrs);
    made->inputs = ToEntries(node.inputs);
    GiveOwnInputs(node, own.input_types, made);
    CheckMutableInputs(*made);
    copies_[{node.id, node.worker}] = nodes_.size();
  }

  /*! \brief Return the attributes in which a worker's copy differs from the operator, or null. */
  const AttributeChanges* ChangesOf(const ProgramNode& node) const {
    const size_t position = node.id * input_.program.num_workers + node.worker;
    const int32_t set = input_.attribute_index.at(position);
    return set < 0 || input_.attributes.at(set).empty() ? nullptr : &input_.attributes.at(set);
  }

  /*! \brief Apply the worker's changes and parse the attributes again. A backward operator without
   * a parser uses the parser of its forward operator. */
  void ChangeAttributes(const ProgramNode& node, const nnvm::IndexedGraph::Node& source,
                        nnvm::NodeAttrs* attrs) const {
    const AttributeChanges* changes = ChangesOf(node);
    if (changes == nullptr) return;
    for (const auto& change : *changes) attrs->dict[change.first] = change.second;
    const nnvm::Op* own = attrs->op;
    const nnvm::Op* parser = own;
    if (own->attr_parser == nullptr && source.control_deps.size() > 0) {
      parser = training_.index()[source.control_deps[0]].source->op();
    }
    if (parser == nullptr || parser->attr_parser == nullptr) return;
    attrs->op = parser;           // parsers of legacy operators read the name of attrs->op
    attrs->parsed = nnvm::any();  // and do nothing if something is parsed already
    parser->attr_parser(attrs);
    attrs->op = own;
  }

  static bool IsLayerBackward(const Node& node) {
    return nnvm::Op::GetAttr<bool>("TIsLayerOpBackward").get(node.op(), false);
  }

  /*! \brief Return true for a sum of gradients in place: the kernel of the second gradient adds to
   * the first. */
  static bool IsSumInPlace(const Node& node) { return node.op()->name == "_grad_add"; }

  /*! \brief Return true if the node's kernel adds to its output on request. Some overwrite it, such
   * as those of clip, cumsum and convolutions of one element, or divide it, such as that of mean.
   * The operators listed here are tested in all forms, and produce large gradients with many
   * readers. */
  static bool AddsToOutputs(const Node& node) {
    static const std::unordered_set<std::string> kNames = {
        "_backward_Embedding", "_backward_FullyConnected", "_backward_batch_dot", "_backward_dot",
        kMultiFetchName};
    return !node.is_variable() && kNames.count(OriginalOperator(node.op())->name) != 0;
  }

  /*! \brief The node whose state a backward node of the same worker uses. */
  const ObjectPtr& ForwardCopy(uint32_t forward, int64_t worker) const {
    const auto op = operator_of_node_.find(forward);
    CHECK(op != operator_of_node_.end())
        << training_.name(forward) << " has a state, but is no operator of the program";
    const auto copy = copies_.find({op->second, worker});
    CHECK(copy != copies_.end()) << training_.name(forward) << " has a state, but no copy before "
                                 << "its backward operator on worker " << worker;
    return nodes_[copy->second];
  }

  /*! \brief Make `made` run after `dep`, unless it already does as its reader or for its state. */
  static void AddControlDep(const ObjectPtr& dep, Node* made) {
    for (const nnvm::NodeEntry& input : made->inputs) {
      if (input.node == dep) return;
    }
    auto& deps = made->control_deps;
    if (std::find(deps.begin(), deps.end(), dep) == deps.end()) deps.push_back(dep);
  }

  static void CheckMutableInputs(const Node& node) {
    const std::vector<uint32_t> own =
        ListSetInputs(node.attrs);  // variables, or copies for this node
    for (uint32_t input : ListMutableInputs(node.attrs)) {
      if (std::find(own.begin(), own.end(), input) != own.end()) continue;
      CHECK(node.inputs.at(input).node->is_variable())
          << node.attrs.name << " changes its input " << input
          << ", which is a fetched copy: the state has to be split like the operator";
    }
  }

  std::vector<nnvm::NodeEntry> ToEntries(const std::vector<Entry>& entries) const {
    std::vector<nnvm::NodeEntry> result;
    for (const Entry& entry : entries) {
      result.emplace_back(nodes_.at(entry.node), static_cast<uint32_t>(entry.index), 0);
    }
    return result;
  }

  const ExecutionInput& input_;
  const TrainingGraph training_;
  std::unordered_map<int64_t, int64_t> operator_of_node_;
  std::vector<ObjectPtr> nodes_;                          // of the program, by position
  ObjectPtr last_;                                        // the last node that is no variable
  std::map<std::pair<int64_t, int64_t>, size_t> copies_;  // (operator, worker) -> position
};

}  // namespace

SymbolHandle BuildExecutionGraph(const ExecutionInput& input) {
  CHECK_EQ(input.attribute_index.size(), input.operator_nodes.size() * input.program.num_workers)
      << "attribute_index needs one row for each operator and one column for each worker";
  CHECK_EQ(input.tensor_names.size(), input.tensor_types.size())
      << "tensors need a name and a type each";
  return Builder(input).Build();
}

}  // namespace nnvm_layer
}  // namespace tofu
