/*!
 * \file check_lifetimes.cc
 */
#include "nnvm/memory/check_lifetimes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace tofu::nnvm_layer {
namespace {

constexpr int64_t kNothing = -1;

int64_t CountBuffers(const EngineView& view) {
  int64_t count = 0;
  for (int64_t buffer : view.buffer) count = std::max(count, buffer + 1);
  return count;
}

bool IsShapeAlone(const EngineView& view, int64_t read) {
  return view.access[read] == static_cast<int64_t>(Access::kShape);
}

bool IsSpoilt(const EngineView& view, int64_t read) {
  return view.access[read] == static_cast<int64_t>(Access::kSpoil);
}

/*! \brief Return true if a node changes the input although the engine assumes a read. */
bool IsChange(const EngineView& view, int64_t read) {
  return view.access[read] == static_cast<int64_t>(Access::kChange) || IsSpoilt(view, read);
}

/*! \brief Check of rules 1 to 3, which replays the nodes in the order of issue. */
class Replay {
 public:
  explicit Replay(const EngineView& view)
      : view_(view),
        content_(CountBuffers(view), kNothing),
        owner_(content_.size(), kNothing),
        first_of_(view.buffer.size(), kNothing) {
    for (size_t node = 0; node < view.names.size(); ++node) {
      node_of_.resize(view.first_entry[node + 1], node);
      for (int64_t e = view.first_entry[node]; e < view.first_entry[node + 1]; ++e) {
        value_of_.push_back(e);
      }
      if (!view.is_skipped[node]) continue;
      const int64_t* inputs = &view.read[view.first_read[node]];
      first_of_[inputs[1]] = inputs[0];
    }
  }

  std::vector<std::string> Run() {
    ForEachNode(true, [this](size_t node) { content_[BufferOf(node)] = view_.first_entry[node]; });
    ForEachNode(false, [this](size_t node) {
      CheckReads(node);
      Spoil(node);
      Write(node);
    });
    ForEachNode(true, [this](size_t node) { CheckAtEnd(view_.first_entry[node]); });
    for (int64_t entry : view_.outputs) CheckAtEnd(entry);
    return std::move(problems_);
  }

 private:
  template <typename Visit>
  void ForEachNode(bool is_variable, Visit visit) {
    for (size_t node = 0; node < view_.names.size(); ++node) {
      if ((view_.is_variable[node] != 0) == is_variable) visit(node);
    }
  }

  int64_t BufferOf(size_t node) const { return view_.buffer[view_.first_entry[node]]; }

  std::string Name(int64_t entry) const {
    const size_t node = node_of_[entry];
    const int64_t first = view_.first_entry[node];
    if (view_.first_entry[node + 1] == first + 1) return view_.names[node];
    return view_.names[node] + "[" + std::to_string(entry - first) + "]";
  }

  void Report(size_t node, const std::string& text) {
    problems_.push_back(view_.names[node] + " " + text);
  }

  /*! \brief Return the value of a buffer after `entry` was added to it. */
  int64_t SumValue(int64_t entry) const { return static_cast<int64_t>(value_of_.size()) + entry; }

  /*! \brief Return "" if an entry's buffer holds `value`. Otherwise describe its content. */
  std::string ExplainMismatch(int64_t entry, int64_t value) const {
    const int64_t found = content_[view_.buffer[entry]];
    if (found == value) return "";
    if (found == kNothing) return ", which nobody has written before, or somebody has spoilt";
    const int64_t added = found - static_cast<int64_t>(value_of_.size());
    return added >= 0 ? ", to whose buffer " + Name(added) + " is added by then"
                      : ", in whose buffer " + Name(found) + " is by then";
  }

  void CheckReads(size_t node) {
    // The kernel of the second input has computed a skipped sum: the first input is no longer in
    // memory, and the buffer of the second holds the sum.
    const int64_t begin = view_.first_read[node] + (view_.is_skipped[node] ? 1 : 0);
    for (int64_t r = begin; r < view_.first_read[node + 1]; ++r) {
      if (IsShapeAlone(view_, r)) continue;
      const int64_t entry = view_.read[r];
      const bool is_sum = view_.is_skipped[node] != 0;
      const std::string mismatch =
          ExplainMismatch(entry, is_sum ? SumValue(entry) : value_of_[entry]);
      if (!mismatch.empty()) Report(node, "reads " + Name(entry) + mismatch);
    }
  }

  void Spoil(size_t node) {
    for (int64_t r = view_.first_read[node]; r < view_.first_read[node + 1]; ++r) {
      if (IsSpoilt(view_, r)) content_[view_.buffer[view_.read[r]]] = kNothing;
    }
  }

  void CheckAtEnd(int64_t entry) {
    const std::string mismatch = ExplainMismatch(entry, value_of_[entry]);
    if (!mismatch.empty()) problems_.push_back(Name(entry) + " is to outlive the step" + mismatch);
  }

  void Write(size_t node) {
    const int64_t begin = view_.first_entry[node], end = view_.first_entry[node + 1];
    for (int64_t entry = begin; entry < end; ++entry) {
      CheckOwner(node, entry);
      CheckOverwrites(node, entry);
      for (int64_t other = begin; other < entry; ++other) {
        if (view_.buffer[other] != view_.buffer[entry]) continue;
        Report(node, "writes two outputs into one buffer");
      }
      int64_t& content = content_[view_.buffer[entry]];
      if (view_.is_added[entry] && !IsReadyToAdd(entry)) {
        Report(node, "adds to a buffer that does not hold what it is to be added to");
      }
      content = view_.is_added[entry] ? SumValue(entry) : value_of_[entry];
    }
  }

  void CheckOwner(size_t node, int64_t entry) {
    int64_t& owner = owner_[view_.buffer[entry]];
    if (owner == kNothing) owner = view_.group[node];
    if (owner != view_.group[node]) Report(node, "shares a buffer with an entry of another worker");
  }

  bool IsReadyToAdd(int64_t entry) const {
    const int64_t first = first_of_[entry];
    return first != kNothing && content_[view_.buffer[entry]] == value_of_[first];
  }

  /*! \brief Check that `entry` overwrites no input of its node without permission. */
  void CheckOverwrites(size_t node, int64_t entry) {
    if (view_.is_skipped[node]) return CheckSum(node, entry);
    for (int64_t r = view_.first_read[node]; r < view_.first_read[node + 1]; ++r) {
      if (IsShapeAlone(view_, r) || view_.buffer[view_.read[r]] != view_.buffer[entry]) continue;
      const int64_t input = r - view_.first_read[node];
      const int64_t output = entry - view_.first_entry[node];
      if (view_.is_added[entry]) {
        Report(node, "adds to " + Name(view_.read[r]) + ", which it reads");
        continue;
      }
      const InPlaceOption* option = FindOption(node, input, output);
      if (option == nullptr) {
        Report(node, "writes over " + Name(view_.read[r]) + ", which it reads");
      } else if (option->is_identity) {
        value_of_[entry] = value_of_[view_.read[r]];
      }
    }
  }

  void CheckSum(size_t node, int64_t entry) {
    const int64_t second = view_.read[view_.first_read[node] + 1];
    const bool is_there = view_.is_added[second] && view_.buffer[second] == view_.buffer[entry];
    if (!is_there) Report(node, "is left out, but " + Name(second) + " is not added in its buffer");
  }

  /*! \brief Return the permission to write an output over an input, or null. */
  const InPlaceOption* FindOption(size_t node, int64_t input, int64_t output) const {
    for (const InPlaceOption& option : view_.in_place[node]) {
      if (option.input == input && option.output == output) return &option;
    }
    return nullptr;
  }

  const EngineView& view_;
  std::vector<int64_t> content_;   // by buffer: the value that it holds as a whole
  std::vector<int64_t> value_of_;  // by entry: itself, or its input if it is an in-place identity

  std::vector<int64_t> owner_;     // by buffer: its worker
  std::vector<int64_t> first_of_;  // by added entry: the entry that it is added to
  std::vector<size_t> node_of_;    // by entry
  std::vector<std::string> problems_;
};

/*! \brief Two nodes that use the same variable: one reads it, the other changes it. */
struct Conflict {
  size_t before = 0;
  size_t after = 0;
  int64_t variable = 0;  // an entry
};

/*! \brief Nodes that use the same variable, in the order of issue. */
struct Uses {
  std::vector<size_t> reads;
  std::vector<size_t> changes;
};

std::vector<Conflict> ListConflicts(const EngineView& view) {
  std::map<int64_t, Uses> changed;  // by entry
  for (size_t r = 0; r < view.read.size(); ++r) {
    if (IsChange(view, r)) changed[view.read[r]];
  }
  for (size_t node = 0; node < view.names.size(); ++node) {
    for (int64_t r = view.first_read[node]; r < view.first_read[node + 1]; ++r) {
      const auto uses = changed.find(view.read[r]);
      if (uses == changed.end() || IsShapeAlone(view, r)) continue;
      if (IsChange(view, r)) uses->second.changes.push_back(node);
      if (!IsChange(view, r) || IsSpoilt(view, r)) uses->second.reads.push_back(node);
    }
  }
  std::vector<Conflict> conflicts;
  for (const auto& variable : changed) {
    for (size_t read : variable.second.reads) {
      for (size_t change : variable.second.changes) {
        if (read == change) continue;
        conflicts.push_back({std::min(read, change), std::max(read, change), variable.first});
      }
    }
  }
  std::sort(conflicts.begin(), conflicts.end(),
            [](const Conflict& a, const Conflict& b) { return a.before < b.before; });
  return conflicts;
}

/*! \brief Return, for each node, which of up to 64 `nodes` always run before it, a bit for each. */
std::vector<uint64_t> FindPredecessors(const EngineView& view, const std::vector<size_t>& nodes) {
  struct Buffer {
    uint64_t write = 0;  // of the last writer
    uint64_t reads = 0;  // of all readers since
  };
  std::vector<Buffer> buffers(CountBuffers(view));
  std::vector<uint64_t> before(view.names.size(), 0);
  size_t bit = 0;
  for (size_t node = 0; node < view.names.size(); ++node) {
    if (view.is_variable[node] || view.is_skipped[node]) continue;
    uint64_t found = 0;
    for (int64_t r = view.first_read[node]; r < view.first_read[node + 1]; ++r) {
      found |= buffers[view.buffer[view.read[r]]].write;
    }
    for (int64_t e = view.first_entry[node]; e < view.first_entry[node + 1]; ++e) {
      found |= buffers[view.buffer[e]].write | buffers[view.buffer[e]].reads;
    }
    before[node] = found;
    if (bit < nodes.size() && nodes[bit] == node) found |= uint64_t{1} << bit++;
    for (int64_t r = view.first_read[node]; r < view.first_read[node + 1]; ++r) {
      buffers[view.buffer[view.read[r]]].reads |= found;
    }
    for (int64_t e = view.first_entry[node]; e < view.first_entry[node + 1]; ++e) {
      buffers[view.buffer[e]] = Buffer{found, 0};
    }
  }
  return before;
}

/*! \brief Check rule 4: list changes of variables whose order with readers is not fixed. */
std::vector<std::string> FindRaces(const EngineView& view) {
  constexpr size_t kBits = 64;
  const std::vector<Conflict> conflicts = ListConflicts(view);
  std::vector<std::string> problems;
  for (size_t begin = 0, end = 0; begin < conflicts.size(); begin = end) {
    std::vector<size_t> nodes;
    for (end = begin; end < conflicts.size(); ++end) {
      const size_t node = conflicts[end].before;
      if (!nodes.empty() && nodes.back() == node) continue;
      if (nodes.size() == kBits) break;
      nodes.push_back(node);
    }
    const std::vector<uint64_t> before = FindPredecessors(view, nodes);
    for (size_t c = begin, bit = 0; c < end; ++c) {
      while (nodes[bit] != conflicts[c].before) ++bit;
      if (before[conflicts[c].after] >> bit & 1) continue;
      const auto node =
          std::upper_bound(view.first_entry.begin(), view.first_entry.end(), conflicts[c].variable);
      problems.push_back(view.names[conflicts[c].before] + " and " +
                         view.names[conflicts[c].after] + " use " +
                         view.names[node - view.first_entry.begin() - 1] +
                         " at the same time, and one changes it");
    }
  }
  return problems;
}

}  // namespace

std::vector<std::string> FindLifetimeProblems(const EngineView& view) {
  std::vector<std::string> problems = Replay(view).Run();
  for (std::string& race : FindRaces(view)) problems.push_back(std::move(race));
  return problems;
}

}  // namespace tofu::nnvm_layer
