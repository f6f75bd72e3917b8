/*!
 * \file elimination_order.cc
 * \brief The min-fill heuristic. Variables with one or two neighbours come first, which is always
 * safe.
 */
#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "core/elimination/eliminate.h"

namespace tofu {

namespace {

/*! \brief The graph of the remaining variables. */
class OrderSearch {
 public:
  explicit OrderSearch(std::vector<std::vector<int>> neighbours)
      : neighbours_(std::move(neighbours)),
        is_gone_(neighbours_.size()),
        fill_(neighbours_.size(), -1) {}

  std::vector<int> Run() {
    for (int v = 0; v < size(); ++v) Touch(v);
    RemoveSmall();
    for (int v = 0; v < size(); ++v) {
      if (!is_gone_[v]) Push(v);
    }
    has_core_ = true;
    while (!heap_.empty()) {
      const auto [fill, v] = heap_.top();
      heap_.pop();
      if (is_gone_[v] || fill != fill_[v]) continue;
      Remove(v);
      RemoveSmall();
    }
    return std::move(order_);
  }

 private:
  static constexpr size_t kSmallDegree = 2;
  static constexpr size_t kLargeDegree = 32;

  int size() const { return static_cast<int>(neighbours_.size()); }

  bool HasEdge(int a, int b) const {
    return std::binary_search(neighbours_[a].begin(), neighbours_[a].end(), b);
  }

  void AddEdge(int a, int b) {
    auto& of_a = neighbours_[a];
    const auto place = std::lower_bound(of_a.begin(), of_a.end(), b);
    if (place != of_a.end() && *place == b) return;
    of_a.insert(place, b);
    auto& of_b = neighbours_[b];
    of_b.insert(std::lower_bound(of_b.begin(), of_b.end(), a), a);
  }

  /*! \brief Count the edges that eliminating v would add. For very many neighbours this is an upper
   * bound, which makes v wait. */
  int64_t CountFill(int v) const {
    const auto& around = neighbours_[v];
    const int64_t degree = static_cast<int64_t>(around.size());
    if (around.size() > kLargeDegree) return degree * (degree - 1) / 2;
    int64_t missing = 0;
    for (size_t i = 0; i < around.size(); ++i) {
      for (size_t j = i + 1; j < around.size(); ++j) missing += !HasEdge(around[i], around[j]);
    }
    return missing;
  }

  void Touch(int v) {
    if (neighbours_[v].size() <= kSmallDegree) small_.push_back(v);
  }

  void Push(int v) {
    const int64_t fill = CountFill(v);
    if (fill == fill_[v]) return;
    fill_[v] = fill;
    heap_.emplace(fill, v);
  }

  void Remove(int v) {
    is_gone_[v] = true;
    order_.push_back(v);
    const std::vector<int> around = std::move(neighbours_[v]);
    neighbours_[v].clear();
    for (int a : around) {
      auto& of_a = neighbours_[a];
      of_a.erase(std::lower_bound(of_a.begin(), of_a.end(), v));
    }
    for (size_t i = 0; i < around.size(); ++i) {
      for (size_t j = i + 1; j < around.size(); ++j) AddEdge(around[i], around[j]);
    }
    for (int a : around) Touch(a);
    if (has_core_) UpdateFill(around);
  }

  /*! \brief Update fill counts of the neighbours and of their common neighbours. */
  void UpdateFill(const std::vector<int>& around) {
    for (int a : around) Push(a);
    for (int a : around) {
      if (neighbours_[a].size() > kLargeDegree) continue;
      for (int b : neighbours_[a]) Push(b);
    }
  }

  void RemoveSmall() {
    while (!small_.empty()) {
      const int v = small_.back();
      small_.pop_back();
      if (!is_gone_[v] && neighbours_[v].size() <= kSmallDegree) Remove(v);
    }
  }

  using HeapItem = std::pair<int64_t, int>;

  std::vector<std::vector<int>> neighbours_;
  std::vector<char> is_gone_;
  std::vector<int64_t> fill_;
  std::vector<int> small_;
  std::vector<int> order_;
  std::priority_queue<HeapItem, std::vector<HeapItem>, std::greater<HeapItem>> heap_;
  bool has_core_ = false;
};

}  // namespace

std::vector<int> FindEliminationOrder(std::vector<std::vector<int>> neighbours) {
  return OrderSearch(std::move(neighbours)).Run();
}

}  // namespace tofu
