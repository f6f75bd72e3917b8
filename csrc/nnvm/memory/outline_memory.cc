/*!
 * \file outline_memory.cc
 */
#include "nnvm/memory/outline_memory.h"

#include <stdexcept>
#include <utility>

#include "nnvm/memory/memory_plan.h"

namespace tofu::nnvm_layer {
namespace {

constexpr int kOwnDevice = 0;
constexpr int kOtherDevice = 1;

MemoryEntry MakeEntry(const std::vector<int64_t>& shape, int type) {
  MemoryEntry entry;
  entry.elements = 1;
  for (int64_t extent : shape) entry.elements *= extent;
  entry.item_bytes = static_cast<int>(mshadow::mshadow_sizeof(type));
  entry.bytes = entry.elements * entry.item_bytes;
  return entry;
}

/*! \brief The memory of a kind of nodes. */
struct KindMemory {
  bool is_variable = false;
  bool adds_to_outputs = false;
  KernelMemory kernel;
  std::vector<MemoryEntry> entries;
  std::vector<int> input_types;
  nnvm::NodeAttrs attrs;  // of an operator
};

class Reader {
 public:
  Reader(const ExecutionGraphBuilder& builder, const std::vector<ProgramNode>& kinds)
      : builder_(builder), kinds_(kinds) {
    plain_sum_.in_place = DescribeByName(kPlainSumName).in_place;
    for (const ProgramNode& kind : kinds) memory_.push_back(DescribeKind(kind));
  }

  int64_t CountPoolBytes(const OutlineCode& code) {
    graph_ = {};
    kind_of_node_.clear();
    first_entry_.clear();
    for (const int32_t* at = code.begin; at != code.end;) {
      const int32_t kind = *at++;
      const int32_t count = at == code.end ? 0 : *at++;
      if (count < 0 || code.end - at < 2 * count) throw std::invalid_argument("a cut outline");
      ReadNode(kind, at, count, at + 2 * count == code.end);
      at += 2 * count;
    }
    const BufferPlan plan = PlanBuffers(graph_);
    int64_t bytes = 0;
    for (int64_t buffer : plan.buffer_bytes) bytes += RoundUpBuffer(buffer);
    return bytes;
  }

 private:
  static KernelMemory DescribeByName(const char* name) {
    nnvm::NodeAttrs attrs;
    attrs.op = nnvm::Op::Get(name);
    return DescribeKernel(attrs);
  }

  KindMemory DescribeKind(const ProgramNode& node) const {
    KindMemory memory;
    memory.is_variable = node.kind == NodeKind::kVariable;
    std::vector<int> types(1);
    if (node.kind == NodeKind::kOperator) {
      memory.attrs = builder_.MakeAttributes(node);
      memory.kernel = DescribeKernel(memory.attrs);
      memory.adds_to_outputs = AddsToOutputs(memory.attrs.op);
      memory.input_types = builder_.ListInputTypes(node.id);
      types = builder_.ListOutputTypes(node.id);
    } else {
      memory.adds_to_outputs = node.kind == NodeKind::kFetch;
      types[0] = builder_.input().tensor_types.at(node.id);
    }
    for (size_t i = 0; i < node.shapes.size(); ++i) {
      memory.entries.push_back(MakeEntry(node.shapes[i], types.at(i)));
      memory.entries.back().is_placed = !memory.is_variable;
    }
    const auto requested = builder_.input().requested_outputs.find(node.id);
    if (node.kind == NodeKind::kOperator && requested != builder_.input().requested_outputs.end()) {
      for (uint32_t output : requested->second) memory.entries.at(output).is_requested = true;
    }
    return memory;
  }

  const ProgramNode& ProducerOf(const int32_t* input) const {
    return kinds_[kind_of_node_.at(input[0])];
  }

  void ReadNode(int32_t kind, const int32_t* inputs, int32_t count, bool is_last) {
    std::vector<uint32_t> reads;
    for (const int32_t* input = inputs; input != inputs + 2 * count; input += 2) {
      reads.push_back(first_entry_.at(input[0]) + input[1]);
    }
    if (kind < 0 && is_last) {
      graph_.outputs = std::move(reads);
      return;
    }
    if (kind < 0) {
      graph_.reads.insert(graph_.reads.end(), reads.begin(), reads.end());
      graph_.EndNode(&fetch_, kOtherDevice);
      return;
    }
    const KindMemory& memory = memory_.at(kind);
    const KernelMemory* kernel = &memory.kernel;
    if (kinds_[kind].kind == NodeKind::kOperator) {
      const auto is_variable = [&](uint32_t input) {
        return ProducerOf(inputs + 2 * input).kind == NodeKind::kVariable;
      };
      if (kernel->is_sum && !memory_[kind_of_node_.at(inputs[2])].adds_to_outputs) {
        kernel = &plain_sum_;
      }
      for (uint32_t input : ListCopiedInputs(memory.attrs, is_variable)) {
        const int32_t* source = inputs + 2 * input;
        const MemoryEntry copy =
            MakeEntry(ProducerOf(source).shapes.at(source[1]), memory.input_types.at(input));
        graph_.reads.push_back(reads.at(input));
        reads[input] = static_cast<uint32_t>(graph_.entries.size());
        graph_.entries.push_back(copy);
        graph_.EndNode(&fetch_, kOwnDevice);
      }
    }
    kind_of_node_.push_back(kind);
    first_entry_.push_back(static_cast<uint32_t>(graph_.entries.size()));
    graph_.reads.insert(graph_.reads.end(), reads.begin(), reads.end());
    graph_.entries.insert(graph_.entries.end(), memory.entries.begin(), memory.entries.end());
    graph_.EndNode(memory.is_variable ? nullptr : kernel, kOwnDevice);
  }

  const ExecutionGraphBuilder& builder_;
  const std::vector<ProgramNode>& kinds_;
  std::vector<KindMemory> memory_;  // by kind
  KernelMemory plain_sum_;
  const KernelMemory fetch_ = {};
  MemoryGraph graph_;
  std::vector<int32_t> kind_of_node_;  // by node of the outline
  std::vector<uint32_t> first_entry_;  // the same
};

}  // namespace

std::vector<int64_t> CountPoolBytes(const ExecutionGraphBuilder& builder,
                                    const std::vector<ProgramNode>& kinds,
                                    const std::vector<OutlineCode>& outlines) {
  Reader reader(builder, kinds);
  std::vector<int64_t> bytes;
  for (const OutlineCode& outline : outlines) bytes.push_back(reader.CountPoolBytes(outline));
  return bytes;
}

}  // namespace tofu::nnvm_layer
