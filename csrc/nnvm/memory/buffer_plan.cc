/*!
 * \file buffer_plan.cc
 */
#include "nnvm/memory/buffer_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>

namespace tofu::nnvm_layer {
namespace {

constexpr int kNoChain = -1;

/*! \brief Entries that are computed in place of each other, and need one buffer. */
struct Chain {
  uint32_t first = 0;  // inclusive, since inputs and outputs are alive at their node
  uint32_t last = 0;
  int64_t bytes = 0;
  std::vector<uint32_t> entries;
};

/*! \brief Finds the first buffer that is free in a range of moments. */
class FreeBuffers {
 public:
  explicit FreeBuffers(size_t num_moments) {
    while (size_ < num_moments) size_ *= 2;
    always_.resize(2 * size_);
    ever_.resize(2 * size_);
  }

  /*! \brief Take the first buffer that is free in [begin, end). */
  int Take(size_t begin, size_t end) {
    used_.clear();
    Collect(1, 0, size_, begin, end);
    size_t word = 0;
    while (word < used_.size() && ~used_[word] == 0) ++word;
    int buffer = static_cast<int>(word * kBits);
    if (word < used_.size()) buffer += __builtin_ctzll(~used_[word]);
    Mark(1, 0, size_, begin, end, buffer);
    return buffer;
  }

 private:
  using Bits = std::vector<uint64_t>;  // by buffer
  static constexpr size_t kBits = 64;

  void Add(const Bits& bits) {
    if (bits.size() > used_.size()) used_.resize(bits.size());
    for (size_t word = 0; word < bits.size(); ++word) used_[word] |= bits[word];
  }

  static void Set(int buffer, Bits* bits) {
    const size_t word = buffer / kBits;
    if (word >= bits->size()) bits->resize(word + 1);
    (*bits)[word] |= uint64_t{1} << (buffer % kBits);
  }

  /*! \brief Collect the buffers used in [begin, end), below a tree node with moments [low, high).
   */
  void Collect(size_t node, size_t low, size_t high, size_t begin, size_t end) {
    if (begin <= low && high <= end) return Add(ever_[node]);
    Add(always_[node]);
    const size_t middle = (low + high) / 2;
    if (begin < middle) Collect(2 * node, low, middle, begin, end);
    if (end > middle) Collect(2 * node + 1, middle, high, begin, end);
  }

  void Mark(size_t node, size_t low, size_t high, size_t begin, size_t end, int buffer) {
    Set(buffer, &ever_[node]);
    if (begin <= low && high <= end) return Set(buffer, &always_[node]);
    const size_t middle = (low + high) / 2;
    if (begin < middle) Mark(2 * node, low, middle, begin, end, buffer);
    if (end > middle) Mark(2 * node + 1, middle, high, begin, end, buffer);
  }

  size_t size_ = 1;
  std::vector<Bits> always_;  // by node of a tree over moments: used in all its moments
  std::vector<Bits> ever_;    // used at some moment
  Bits used_;
};

class Planner {
 public:
  explicit Planner(const MemoryGraph& graph)
      : graph_(graph), node_of_(graph.entries.size()), in_place_(graph.entries.size(), kOwnBuffer) {
    for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
      for (uint32_t e = graph.first_entry[node]; e < graph.first_entry[node + 1]; ++e) {
        node_of_[e] = node;
      }
    }
  }

  BufferPlan Plan() {
    CountReaders();
    for (uint32_t node = 0; node < graph_.num_nodes(); ++node) DecideInPlace(node);
    ApplyMarks();
    NumberChains();
    FindAdded();
    if (KeepFirstGradients()) {
      NumberChains();
      FindAdded();
    }
    PlaceChains();
    plan_.in_place = std::move(in_place_);
    return std::move(plan_);
  }

 private:
  uint32_t Input(uint32_t node, size_t input) const {
    return graph_.reads[graph_.first_read[node] + input];
  }
  bool IsPlaced(uint32_t entry) const { return graph_.entries[entry].is_placed; }

  /*! \brief Call visit(entry) for each input of which the node reads elements. */
  template <typename Visit>
  void ForEachInput(uint32_t node, const Visit& visit) const {
    if (graph_.kernels[node] == nullptr) return;
    const std::vector<uint32_t>& ignored = graph_.kernels[node]->ignored;
    for (uint32_t r = graph_.first_read[node]; r < graph_.first_read[node + 1]; ++r) {
      const uint32_t input = r - graph_.first_read[node];
      if (std::find(ignored.begin(), ignored.end(), input) == ignored.end()) visit(graph_.reads[r]);
    }
  }

  /*! \brief Find how often each entry is read, and its last reader. */
  void CountReaders() {
    const size_t count = graph_.entries.size();
    readers_.assign(count, 0);
    uses_.assign(count, 0);
    last_ = node_of_;
    for (uint32_t entry : graph_.reads) ++uses_[entry];
    for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
      ForEachInput(node, [&](uint32_t entry) {
        ++readers_[entry];
        last_[entry] = std::max(last_[entry], node);
      });
    }
    for (uint32_t entry : graph_.outputs) {
      ++uses_[entry];
      ++readers_[entry];
      last_[entry] = graph_.num_nodes();
    }
    chain_of_.assign(count, kNoChain);
  }

  bool MayReplace(uint32_t node, const InPlaceOption& option, uint32_t input,
                  uint32_t output) const {
    if (!IsPlaced(output) || chain_of_[output] != kNoChain || chain_of_[input] == kNoChain) {
      return false;
    }
    const MemoryEntry& from = graph_.entries[input];
    const MemoryEntry& to = graph_.entries[output];
    const size_t num_inputs = graph_.first_read[node + 1] - graph_.first_read[node];
    const bool reads_some = graph_.kernels[node]->ignored.size() != num_inputs;
    const bool is_last = pending_[chain_of_[input]] == 1 && reads_some;
    return (is_last || option.is_identity) && readers_[output] > 0 &&
           from.elements == to.elements && from.item_bytes == to.item_bytes;
  }

  /*! \brief Choose the outputs of a node that take the memory of an input. */
  void DecideInPlace(uint32_t node) {
    const KernelMemory* kernel = graph_.kernels[node];
    if (kernel == nullptr) return;
    const uint32_t begin = graph_.first_entry[node], end = graph_.first_entry[node + 1];
    taken_.clear();
    for (const InPlaceOption& option : kernel->in_place) {
      const uint32_t input = Input(node, option.input), output = begin + option.output;
      const bool is_taken = std::find(taken_.begin(), taken_.end(), option.input) != taken_.end();
      if (is_taken || !MayReplace(node, option, input, output)) continue;
      taken_.push_back(option.input);
      chain_of_[output] = chain_of_[input];
      pending_[chain_of_[output]] += readers_[output];
      in_place_[output] = static_cast<int>(option.input);
    }
    for (uint32_t entry = begin; entry < end; ++entry) {
      if (!IsPlaced(entry) || chain_of_[entry] != kNoChain) continue;
      chain_of_[entry] = static_cast<int>(pending_.size());
      pending_.push_back(readers_[entry]);
    }
    ForEachInput(node, [&](uint32_t entry) {
      if (chain_of_[entry] != kNoChain) --pending_[chain_of_[entry]];
    });
    for (uint32_t entry = begin; entry < end; ++entry) {
      if (IsPlaced(entry) && pending_[chain_of_[entry]] == 0) in_place_[entry] = kUnread;
    }
  }

  void ApplyMarks() {
    for (uint32_t entry = 0; entry < graph_.entries.size(); ++entry) {
      const MemoryEntry& marks = graph_.entries[entry];
      // MXNet requests no output that nobody reads, but gives it a buffer during its node.
      if (marks.is_requested && in_place_[entry] == kUnread) in_place_[entry] = kOwnBuffer;
      // A later run would overwrite what a kept output replaces.
      if (marks.is_kept) in_place_[entry] = kOwnBuffer;
      if (in_place_[entry] < 0) continue;
      // Even in an invalid graph, without a fetch in between.
      const uint32_t node = node_of_[entry], from = node_of_[Input(node, in_place_[entry])];
      if (graph_.devices[from] != graph_.devices[node]) in_place_[entry] = kOwnBuffer;
    }
  }

  void NumberChains() {
    num_chains_ = 0;
    for (uint32_t entry = 0; entry < graph_.entries.size(); ++entry) {
      if (!IsPlaced(entry)) continue;
      chain_of_[entry] = in_place_[entry] < 0 ? num_chains_++
                                              : chain_of_[Input(node_of_[entry], in_place_[entry])];
    }
  }

  /*! \brief Find the entries that MXNet adds directly into a sum (its DetectInplaceAddTo). */
  void FindAdded() {
    std::vector<int> chain_of = chain_of_;
    is_added_.assign(graph_.entries.size(), 0);
    for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
      if (graph_.kernels[node] == nullptr || !graph_.kernels[node]->is_sum) continue;
      const uint32_t first = Input(node, 0), second = Input(node, 1);
      if (chain_of[first] != chain_of[graph_.first_entry[node]]) continue;
      const bool has_variable =
          graph_.kernels[node_of_[first]] == nullptr || graph_.kernels[node_of_[second]] == nullptr;
      if (has_variable || uses_[second] != 1 || node_of_[first] >= node_of_[second]) continue;
      chain_of[second] = chain_of[first];
      is_added_[second] = 1;
    }
  }

  /*! \brief A sum of two gradients, which MXNet computes in the memory of the first gradient. */
  struct SumInPlace {
    uint32_t sum = 0;
    uint32_t second = 0;  // the node whose kernel adds to the first gradient
    bool is_read_late = false;
  };

  /*!
   * \brief Give a sum a separate buffer if the first gradient is read late. Return true if any did.
   *
   * The kernel of the second gradient adds to the first gradient before the sum's node runs. Later
   * readers of the first gradient, such as fetches of other workers, would read the sum.
   */
  bool KeepFirstGradients() {
    std::unordered_map<uint32_t, SumInPlace> sums;  // by entry of the first gradient
    for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
      if (graph_.kernels[node] == nullptr || !graph_.kernels[node]->is_sum) continue;
      if (!is_added_[Input(node, 1)]) continue;
      sums[Input(node, 0)] = SumInPlace{node, node_of_[Input(node, 1)]};
    }
    for (uint32_t node = 0; node < graph_.num_nodes() && !sums.empty(); ++node) {
      ForEachInput(node, [&](uint32_t entry) {
        const auto found = sums.find(entry);
        if (found == sums.end() || node == found->second.sum || node < found->second.second) return;
        found->second.is_read_late = true;
      });
    }
    bool has_changed = false;
    for (const auto& sum : sums) {
      if (!sum.second.is_read_late) continue;
      in_place_[graph_.first_entry[sum.second.sum]] = kOwnBuffer;
      has_changed = true;
    }
    return has_changed;
  }

  /*! \brief List the chains of every device, ordered by their first nodes. */
  std::map<int, std::vector<Chain>> ListChains() const {
    std::vector<size_t> position(num_chains_);
    std::map<int, std::vector<Chain>> chains;
    std::vector<char> is_known(num_chains_, 0);
    for (uint32_t entry = 0; entry < graph_.entries.size(); ++entry) {
      if (!IsPlaced(entry) || is_added_[entry]) continue;
      const uint32_t node = node_of_[entry];
      std::vector<Chain>& on_device = chains[graph_.devices[node]];
      const int number = chain_of_[entry];
      if (!is_known[number]) {
        is_known[number] = 1;
        position[number] = on_device.size();
        on_device.emplace_back();
        on_device.back().first = node;
      }
      Chain& chain = on_device[position[number]];
      chain.last = std::max(chain.last, last_[entry]);
      if (graph_.entries[entry].is_kept) {  // also before the first node
        chain.first = 0;
        chain.last = graph_.num_nodes();
      }
      chain.bytes = std::max(chain.bytes, graph_.entries[entry].bytes);
      chain.entries.push_back(entry);
    }
    return chains;
  }

  void PlaceChains() {
    plan_.buffers.assign(graph_.entries.size(), -1);
    for (auto& device : ListChains()) Pack(device.first, std::move(device.second));
    for (uint32_t entry = 0; entry < graph_.entries.size(); ++entry) {
      if (is_added_[entry]) plan_.buffers[entry] = AddBuffer(graph_.devices[node_of_[entry]], 0);
    }
  }

  int AddBuffer(int device, int64_t bytes) {
    plan_.buffer_bytes.push_back(bytes);
    plan_.buffer_devices.push_back(device);
    return static_cast<int>(plan_.buffer_bytes.size()) - 1;
  }

  /*! \brief Put every chain of a device into the first buffer that is free during its lifetime. */
  void Pack(int device, std::vector<Chain> chains) {
    // Lifetimes overlap if one contains the first node of the other. So only first nodes matter.
    std::vector<uint32_t> moments;
    for (const Chain& chain : chains) moments.push_back(chain.first);
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    std::stable_sort(chains.begin(), chains.end(),
                     [](const Chain& a, const Chain& b) { return a.bytes > b.bytes; });
    FreeBuffers buffers(moments.size());
    const int first_buffer = static_cast<int>(plan_.buffer_bytes.size());
    for (const Chain& chain : chains) {
      const auto begin = std::lower_bound(moments.begin(), moments.end(), chain.first);
      const auto end = std::upper_bound(begin, moments.end(), chain.last);
      const int buffer =
          first_buffer + buffers.Take(begin - moments.begin(), end - moments.begin());
      if (buffer == static_cast<int>(plan_.buffer_bytes.size())) AddBuffer(device, chain.bytes);
      for (uint32_t entry : chain.entries) plan_.buffers[entry] = buffer;
    }
  }

  const MemoryGraph& graph_;
  std::vector<uint32_t> node_of_;  // by entry
  std::vector<int> in_place_;      // by entry; becomes part of the plan
  std::vector<uint32_t> readers_;  // by entry: nodes that read elements, and the caller
  std::vector<uint32_t> uses_;     // by entry: the same, and nodes that read only the shape
  std::vector<uint32_t> last_;     // by entry: the last reader; the number of nodes for outputs
  std::vector<int> chain_of_;      // by entry
  int num_chains_ = 0;
  std::vector<uint32_t> pending_;  // by chain: readers that have not run
  std::vector<uint32_t> taken_;    // inputs of a node that an output replaces
  std::vector<char> is_added_;     // by entry
  BufferPlan plan_;
};

}  // namespace

BufferPlan PlanBuffers(const MemoryGraph& graph) { return Planner(graph).Plan(); }

}  // namespace tofu::nnvm_layer
