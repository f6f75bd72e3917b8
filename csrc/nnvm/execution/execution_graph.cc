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
#include "nnvm/fetch/multi_fetch.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/graph/graph_info.h"
#include "nnvm/graph/inference.h"

namespace tofu::nnvm_layer {

using nnvm::Node;
using nnvm::ObjectPtr;

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
   * variable, so the variables come first. */
  void InferTypes(const ExecutionInput& input) {
    TypesByName given;
    const auto give = [&](size_t tensor) {
      const std::string& name = input.tensor_names.at(tensor);
      if (variables_.count(name) != 0) given.emplace(name, input.tensor_types.at(tensor));
    };
    for (int64_t tensor : input.variables) give(tensor);
    for (size_t tensor = 0; tensor < input.tensor_names.size(); ++tensor) give(tensor);
    graph_ = InferGraphTypes(std::move(graph_), given);
    types_ = graph_.GetAttr<nnvm::DTypeVector>("dtype");
  }

  nnvm::Graph graph_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, const Node*> variables_;
  nnvm::DTypeVector types_;
};

namespace {

/*! \brief Builder of the execution graph, which adds nodes in the order of the program. */
class Builder {
 public:
  Builder(const ExecutionGraphBuilder& builder, const TrainingGraph& training,
          const Program& program)
      : builder_(builder), input_(builder.input()), training_(training), program_(program) {
    for (size_t op = 0; op < input_.operator_nodes.size(); ++op) {
      if (input_.operator_nodes[op] >= 0) operator_of_node_[input_.operator_nodes[op]] = op;
    }
  }

  SymbolHandle Build() {
    for (const ProgramNode& node : program_.nodes) nodes_.push_back(MakeNode(node));
    ChooseBlockedOutputs(program_, nodes_);
    for (const Entry& entry : program_.transit) {
      MarkOutput(OutputMark::kTransit, entry.index, &nodes_.at(entry.node)->attrs);
    }
    for (const auto& copy : copies_) {
      const auto requested = input_.requested_outputs.find(copy.first.first);
      if (requested == input_.requested_outputs.end()) continue;
      nnvm::NodeAttrs* attrs = &nodes_[copy.second]->attrs;
      for (uint32_t index : requested->second) MarkOutput(OutputMark::kRequested, index, attrs);
    }
    return NewHandle(ToEntries(program_.outputs));
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
    if (node.kind == NodeKind::kVariable) {
      made->attrs.dict[kGroupAttribute] = NameGroup(node.worker);
    } else {
      PutLast(node.worker, std::to_string(nodes_.size()), made);
    }
    return made;
  }

  /*! \brief Make a node the last one in the order, at a position that no other node has. */
  void PutLast(int64_t worker, const std::string& position, const ObjectPtr& made) {
    made->attrs.dict[kGroupAttribute] = NameGroup(worker);
    made->attrs.dict[kPositionAttribute] = position;
    if (last_ != nullptr) AddControlDep(last_, made.get());
    last_ = made;
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
    made->attrs = builder_.MakeAttributes(node);
    made->inputs = ToEntries(node.inputs);
    const int64_t id = input_.operator_nodes.at(node.id);
    if (id >= 0) {
      const auto& source = training_.index()[id];
      CHECK_EQ(made->inputs.size(), source.inputs.size()) << made->attrs.name << ": wrong inputs";
      if (IsSumInPlace(made->op()) && !AddsToOutputs(made->inputs[1].node->op())) {
        made->attrs.op = nnvm::Op::Get(kPlainSumName);
      }
      if (IsLayerBackward(*source.source)) {
        made->control_deps.push_back(ForwardCopy(source.control_deps[0], node.worker));
      }
    }
    GiveOwnInputs(node, builder_.ListInputTypes(node.id), made);
    CheckMutableInputs(*made);
    copies_[{node.id, node.worker}] = nodes_.size();
  }

  void GiveOwnInputs(const ProgramNode& node, const std::vector<int>& types, Node* made) {
    const auto is_variable = [&](uint32_t input) {
      return made->inputs.at(input).node->is_variable();
    };
    for (uint32_t input : ListCopiedInputs(made->attrs, is_variable)) {
      nnvm::NodeEntry* entry = &made->inputs.at(input);
      *entry = nnvm::NodeEntry(MakeCopy(node, input, types.at(input), *entry), 0, 0);
    }
  }

  /*! \brief Copy an input for one node. The copy is a fetch within the worker, since MXNet's passes
   * would remove an identity. */
  ObjectPtr MakeCopy(const ProgramNode& node, uint32_t input, int type,
                     const nnvm::NodeEntry& entry) {
    const Entry& source = node.inputs.at(input);
    const ProgramNode& producer = program_.nodes.at(source.node);
    const Extents& extent = producer.shapes.at(source.index);
    MultiFetchParam param;
    param.num_args = 1;
    param.shape = ToShape(extent);
    param.dtype = type;
    param.pieces.push_back({FullBox(extent), {{0, Extents(extent.size(), 0)}}});
    param.tensor = entry.node->attrs.name;
    param.worker = static_cast<int>(node.worker);
    param.phase = static_cast<int>(node.phase);
    ObjectPtr copy = Node::Create();
    const std::string position = std::to_string(nodes_.size()) + "." + std::to_string(input);
    copy->attrs.name = entry.node->attrs.name + "#" + position;
    SetMultiFetchAttributes(std::move(param), &copy->attrs);
    copy->inputs = {entry};
    PutLast(node.worker, position, copy);
    return copy;
  }

  static bool IsLayerBackward(const Node& node) {
    return nnvm::Op::GetAttr<bool>("TIsLayerOpBackward").get(node.op(), false);
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

  const ExecutionGraphBuilder& builder_;
  const ExecutionInput& input_;
  const TrainingGraph& training_;
  const Program& program_;
  std::unordered_map<int64_t, int64_t> operator_of_node_;
  std::vector<ObjectPtr> nodes_;                          // of the program, by position
  ObjectPtr last_;                                        // the last node that is no variable
  std::map<std::pair<int64_t, int64_t>, size_t> copies_;  // (operator, worker) -> position
};

}  // namespace

bool IsSumInPlace(const nnvm::Op* op) { return op->name == "_grad_add"; }

bool AddsToOutputs(const nnvm::Op* op) {
  static const std::unordered_set<std::string> kNames = {
      "_backward_Embedding", "_backward_FullyConnected", "_backward_batch_dot", "_backward_dot",
      kMultiFetchName};
  return op != nullptr && kNames.count(OriginalOperator(op)->name) != 0;
}

ExecutionGraphBuilder::ExecutionGraphBuilder(ExecutionInput input)
    : input_(std::make_shared<ExecutionInput>(std::move(input))),
      training_(std::make_shared<TrainingGraph>(*input_)) {
  CHECK_EQ(input_->tensor_names.size(), input_->tensor_types.size())
      << "tensors need a name and a type each";
}

SymbolHandle ExecutionGraphBuilder::Build(const Program& program) const {
  CHECK_EQ(input_->attribute_index.size(), input_->operator_nodes.size() * program.num_workers)
      << "attribute_index needs one row for each operator and one column for each worker";
  return Builder(*this, *training_, program).Build();
}

nnvm::NodeAttrs ExecutionGraphBuilder::MakeAttributes(const ProgramNode& node) const {
  const int64_t id = input_->operator_nodes.at(node.id);
  if (id < 0) return MakeOwnAttributes(node);
  const auto& source = training_->index()[id];
  const nnvm::Op* whole = source.source->op();
  nnvm::NodeAttrs attrs = source.source->attrs;
  attrs.name = NameShard(training_->name(id), node.worker);
  ChangeAttributes(node, source, &attrs);
  if (NeedsShapes(whole)) SetCloneOutputs(node.shapes, training_->OutputTypes(id), &attrs);
  if (NeedsClone(whole)) attrs.op = CloneOperator(whole);
  return attrs;
}

nnvm::NodeAttrs ExecutionGraphBuilder::MakeOwnAttributes(const ProgramNode& node) const {
  const OwnOperator& own = FindOwnOperator(node.id);
  nnvm::NodeAttrs attrs;
  attrs.op = nnvm::Op::Get(own.op);
  attrs.name = NameShard(own.name, node.worker);
  attrs.dict = own.attributes;
  for (const auto& change : ChangesOf(node)) attrs.dict[change.first] = change.second;
  if (attrs.op->attr_parser != nullptr) attrs.op->attr_parser(&attrs);
  return attrs;
}

const OwnOperator& ExecutionGraphBuilder::FindOwnOperator(int64_t op) const {
  const auto found = input_->own_operators.find(op);
  CHECK(found != input_->own_operators.end())
      << "operator " << op << " of the program is not in the training graph";
  return found->second;
}

std::vector<int> ExecutionGraphBuilder::ListInputTypes(int64_t op) const {
  const int64_t id = input_->operator_nodes.at(op);
  return id < 0 ? FindOwnOperator(op).input_types : training_->InputTypes(id);
}

std::vector<int> ExecutionGraphBuilder::ListOutputTypes(int64_t op) const {
  const int64_t id = input_->operator_nodes.at(op);
  return id < 0 ? FindOwnOperator(op).output_types : training_->OutputTypes(id);
}

const AttributeChanges& ExecutionGraphBuilder::ChangesOf(const ProgramNode& node) const {
  static const AttributeChanges kNone;
  const size_t num_workers = input_->attribute_index.size() / input_->operator_nodes.size();
  const int32_t set = input_->attribute_index.at(node.id * num_workers + node.worker);
  return set < 0 ? kNone : input_->attributes.at(set);
}

void ExecutionGraphBuilder::ChangeAttributes(const ProgramNode& node,
                                             const nnvm::IndexedGraph::Node& source,
                                             nnvm::NodeAttrs* attrs) const {
  const AttributeChanges& changes = ChangesOf(node);
  if (changes.empty()) return;
  for (const auto& change : changes) attrs->dict[change.first] = change.second;
  const nnvm::Op* own = attrs->op;
  const nnvm::Op* parser = own;
  if (own->attr_parser == nullptr && source.control_deps.size() > 0) {
    parser = training_->index()[source.control_deps[0]].source->op();
  }
  if (parser == nullptr || parser->attr_parser == nullptr) return;
  attrs->op = parser;           // parsers of legacy operators read the name of attrs->op
  attrs->parsed = nnvm::any();  // and do nothing if something is parsed already
  parser->attr_parser(attrs);
  attrs->op = own;
}

}  // namespace tofu::nnvm_layer
