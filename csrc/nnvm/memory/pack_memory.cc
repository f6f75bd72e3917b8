/*!
 * \file pack_memory.cc
 */
#include "nnvm/memory/pack_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nnvm/execution/marked_outputs.h"
#include "nnvm/fetch/place_device.h"
#include "nnvm/graph/liveness.h"

namespace tofu {
namespace nnvm_layer {
namespace {

using nnvm::Graph;
using nnvm::IndexedGraph;

// Marks of MXNet's planner: nobody reads the output; the output is not computed in place.
constexpr int kUnread = -2;
constexpr int kOwnBuffer = -1;

/*! \brief Entries that are computed in place of each other, and need one buffer. */
struct Chain {
  uint32_t first = 0;  // inclusive, since inputs and outputs are alive at their node
  uint32_t last = 0;
  int64_t bytes = 0;
  std::vector<uint32_t> entries;
};

nnvm::PassFunction g_original_body;  // MXNet's pass

/*! \brief Call edit(index, &in_place). in_place[entry] is the input whose memory the entry takes.
 */
template <typename Edit>
void EditInPlace(Graph* graph, const Edit& edit) {
  auto in_place = graph->GetAttr<std::vector<int>>("storage_inplace_index");
  edit(graph->indexed_graph(), &in_place);
  SetGraphAttr(graph, "storage_inplace_index", std::move(in_place));
}

/*! \brief The operator with which MXNet sums gradients in place. */
const nnvm::Op* SumOp() {
  static const nnvm::Op* op = nnvm::Op::Get("_grad_add");
  return op;
}

/*! \brief Return, for each entry, 1 if MXNet adds it directly into a sum, so that it needs no
 * memory. */
std::vector<int> FindAddedInPlace(const Graph& graph) {
  return mxnet::exec::DetectInplaceAddTo(graph).GetAttr<std::vector<int>>("addto_entry");
}

/*! \brief Give each chain of in-place entries its own buffer. MXNet's planner also reuses buffers
 * for later chains. */
void SeparateChains(Graph* graph) {
  const IndexedGraph& index = graph->indexed_graph();
  const auto& in_place = graph->GetAttr<std::vector<int>>("storage_inplace_index");
  auto storage = graph->GetAttr<nnvm::StorageVector>("storage_id");
  int num_buffers = 0;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    for (uint32_t output = 0; output < index[id].source->num_outputs(); ++output) {
      const uint32_t entry = index.entry_id(id, output);
      if (storage[entry] < 0) continue;
      storage[entry] = in_place[entry] < 0
                           ? num_buffers++
                           : storage[index.entry_id(index[id].inputs[in_place[entry]])];
    }
  }
  SetGraphAttr(graph, "storage_id", std::move(storage));
}

/*! \brief A sum of two gradients, which MXNet computes in the memory of the first gradient. */
struct SumInPlace {
  uint32_t sum = 0;
  uint32_t second = 0;  // the node whose kernel adds to the first gradient
  bool is_read_late = false;
};

/*!
 * \brief Give a sum a separate buffer if the first gradient is read late.
 *
 * The kernel of the second gradient adds to the first gradient before the sum's node runs. Later
 * readers of the first gradient, such as fetches of other workers, would read the sum.
 */
void KeepFirstGradients(Graph* graph) {
  const IndexedGraph& index = graph->indexed_graph();
  const std::vector<int> is_added = FindAddedInPlace(*graph);
  std::unordered_map<uint32_t, SumInPlace> sums;  // by entry of the first gradient
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const auto& inputs = index[id].inputs;
    if (index[id].source->op() != SumOp() || !is_added[index.entry_id(inputs[1])]) continue;
    sums[index.entry_id(inputs[0])] = SumInPlace{id, inputs[1].node_id};
  }
  for (uint32_t id = 0; id < index.num_nodes() && !sums.empty(); ++id) {
    if (index[id].source->is_variable()) continue;
    const std::vector<uint32_t> ignored = ListIgnoredInputs(index[id].source->attrs);
    for (uint32_t input = 0; input < index[id].inputs.size(); ++input) {
      const auto found = sums.find(index.entry_id(index[id].inputs[input]));
      if (found == sums.end() || id == found->second.sum || id < found->second.second) continue;
      if (std::count(ignored.begin(), ignored.end(), input) == 0) found->second.is_read_late = true;
    }
  }
  EditInPlace(graph, [&sums](const IndexedGraph& index, std::vector<int>* in_place) {
    for (const auto& sum : sums) {
      if (sum.second.is_read_late) in_place->at(index.entry_id(sum.second.sum, 0)) = kOwnBuffer;
    }
  });
}

/*! \brief List the chains of every device, ordered by their first nodes. */
std::map<int, std::vector<Chain>> ListChains(const Graph& graph, const std::vector<int>& is_added) {
  const IndexedGraph& index = graph.indexed_graph();
  const auto& storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  const auto& in_place = graph.GetAttr<std::vector<int>>("storage_inplace_index");
  const auto& devices = graph.GetAttr<nnvm::DeviceVector>("device");
  const std::vector<uint32_t> last = FindLastReaders(index);
  const auto end = static_cast<uint32_t>(index.num_nodes());
  std::vector<size_t> chain_of(index.num_node_entries(), 0);
  std::map<int, std::vector<Chain>> chains;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    const nnvm::Node& node = *index[id].source;
    const std::vector<uint32_t> kept = ListMarkedOutputs(OutputMark::kKept, node.attrs);
    for (uint32_t output = 0; output < node.num_outputs(); ++output) {
      const uint32_t entry = index.entry_id(id, output);
      if (storage[entry] < 0 || is_added[entry]) continue;
      std::vector<Chain>& on_device = chains[devices[id]];
      if (in_place[entry] >= 0) {
        chain_of[entry] = chain_of[index.entry_id(index[id].inputs[in_place[entry]])];
      } else {
        chain_of[entry] = on_device.size();
        on_device.emplace_back();
        on_device.back().first = id;
      }
      Chain& chain = on_device[chain_of[entry]];
      chain.last = std::max(chain.last, last[entry]);
      if (std::count(kept.begin(), kept.end(), output) != 0) {  // also before the first node
        chain.first = 0;
        chain.last = end;
      }
      chain.bytes = std::max(chain.bytes, EntryBytes(graph, entry, node));
      chain.entries.push_back(entry);
    }
  }
  return chains;
}

/*! \brief A buffer and the disjoint, half-open intervals in which it is used. */
class Buffer {
 public:
  explicit Buffer(int number) : number_(number) {}

  int number() const { return number_; }
  bool IsFree(uint32_t begin, uint32_t end) const {
    const auto next = end_of_.lower_bound(begin);
    if (next != end_of_.end() && next->first < end) return false;
    return next == end_of_.begin() || std::prev(next)->second <= begin;
  }
  void Take(uint32_t begin, uint32_t end) { end_of_[begin] = end; }

 private:
  int number_;
  std::map<uint32_t, uint32_t> end_of_;  // by begin
};

/*! \brief Put every chain of a device into the first buffer that is free during its lifetime. */
void PackChains(std::vector<Chain> chains, int* num_buffers, nnvm::StorageVector* storage) {
  std::stable_sort(chains.begin(), chains.end(),
                   [](const Chain& a, const Chain& b) { return a.bytes > b.bytes; });
  std::vector<Buffer> buffers;
  for (const Chain& chain : chains) {
    auto buffer = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& other) {
      return other.IsFree(chain.first, chain.last + 1);
    });
    if (buffer == buffers.end()) {
      buffer = buffers.insert(buffers.end(), Buffer((*num_buffers)++));
    }
    buffer->Take(chain.first, chain.last + 1);
    for (uint32_t entry : chain.entries) (*storage)[entry] = buffer->number();
  }
}

/*! \brief Request outputs that are marked as such. MXNet requests none that nobody reads, but gives
 * them a buffer during their node. */
void AskForOutputs(Graph* graph) {
  EditInPlace(graph, [](const IndexedGraph& index, std::vector<int>* in_place) {
    for (uint32_t entry : ListMarkedEntries(OutputMark::kAsked, index)) {
      if (in_place->at(entry) == kUnread) in_place->at(entry) = kOwnBuffer;
    }
  });
}

/*! \brief Compute nothing in place of an input on another device, even in an invalid graph without
 * a fetch in between. */
void SeparateDevices(Graph* graph) {
  const auto& devices = graph->GetAttr<nnvm::DeviceVector>("device");
  EditInPlace(graph, [&devices](const IndexedGraph& index, std::vector<int>* in_place) {
    for (uint32_t id = 0; id < index.num_nodes(); ++id) {
      for (uint32_t output = 0; output < index[id].source->num_outputs(); ++output) {
        int& place = in_place->at(index.entry_id(id, output));
        if (place < 0 || devices[index[id].inputs[place].node_id] == devices[id]) continue;
        place = kOwnBuffer;
      }
    }
  });
}

/*! \brief Compute kept outputs in place of nothing, since a later run would overwrite them with
 * what they replace. Return true if there are any. */
bool PartKeptOutputs(Graph* graph) {
  const std::vector<uint32_t> kept = ListMarkedEntries(OutputMark::kKept, graph->indexed_graph());
  EditInPlace(graph, [&kept](const IndexedGraph&, std::vector<int>* in_place) {
    for (uint32_t entry : kept) in_place->at(entry) = kOwnBuffer;
  });
  return !kept.empty();
}

Graph PackMemory(Graph graph) {
  graph = g_original_body(std::move(graph));
  if (graph.attrs.count("device") == 0) return graph;
  AskForOutputs(&graph);
  const bool has_kept = PartKeptOutputs(&graph);
  if (!has_kept && !HoldsFetch(graph.indexed_graph())) return graph;
  SeparateDevices(&graph);
  SeparateChains(&graph);
  KeepFirstGradients(&graph);
  SeparateChains(&graph);
  nnvm::StorageVector storage = graph.GetAttr<nnvm::StorageVector>("storage_id");
  const std::vector<int> is_added = FindAddedInPlace(graph);
  int num_buffers = 0;
  for (auto& device : ListChains(graph, is_added)) {
    PackChains(std::move(device.second), &num_buffers, &storage);
  }
  // MXNet moves entries that it adds in place to the sum's buffer if they had another.
  for (size_t entry = 0; entry < storage.size(); ++entry) {
    if (is_added[entry]) storage[entry] = num_buffers++;
  }
  SetGraphAttr(&graph, "storage_id", std::move(storage));
  return graph;
}

}  // namespace

void InstallPackMemory() { ReplacePass("MXPlanMemory", PackMemory, &g_original_body); }

}  // namespace nnvm_layer
}  // namespace tofu
