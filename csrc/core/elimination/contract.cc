/*!
 * \file contract.cc
 * \brief Elimination of variables with few neighbours. Equal tables are computed once.
 */
#include "core/elimination/contract.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/byte_loops.h"

namespace tofu {

namespace {

using SharedVector = std::shared_ptr<const std::vector<int64_t>>;

class Contractor {
 public:
  Contractor(const PairwiseProblem& problem, double max_operations)
      : max_operations_(max_operations), neighbours_(problem.size()), is_gone_(problem.size()) {
    for (const std::vector<Weight>& unary : problem.unary)
      unary_.push_back(Share(ListBytes(unary)));
    for (const PairTable& pair : problem.pairs) Connect(pair.first, pair.second, pair.bytes);
  }

  Contraction Run() {
    for (int v = 0; v < size(); ++v) waiting_.push_back(v);
    while (!waiting_.empty()) {
      const int v = waiting_.back();
      waiting_.pop_back();
      if (!is_gone_[v] && CanRemove(v)) Remove(v);
    }
    return Collect();
  }

 private:
  using Key = std::tuple<const void*, const void*, const void*>;

  int size() const { return static_cast<int>(neighbours_.size()); }

  bool CanRemove(int v) const {
    if (neighbours_[v].size() > 2) return false;
    double operations = static_cast<double>(unary_[v]->size());
    for (const auto& [other, table] : neighbours_[v])
      operations *= static_cast<double>(unary_[other]->size());
    return operations <= max_operations_;
  }

  SharedVector Share(std::vector<int64_t> values) {
    SharedVector& known = vectors_[values];
    if (known == nullptr) known = std::make_shared<std::vector<int64_t>>(std::move(values));
    return known;
  }

  /*! \brief Return the transposed table. Rows of tables in `neighbours_[v]` are values of v. */
  SharedMatrix FindTransposed(const SharedMatrix& table) {
    SharedMatrix& known = transposed_[table.get()];
    if (known != nullptr) return known;
    const auto transposed = std::make_shared<const ByteMatrix>(Transpose(*table));
    known = transposed;
    transposed_[transposed.get()] = table;
    return transposed_[table.get()];
  }

  void Connect(int a, int b, const SharedMatrix& table) {
    SharedMatrix& known = neighbours_[a][b];
    known = known == nullptr ? table : Add(known, table);
    const SharedMatrix sum = known;
    neighbours_[b][a] = FindTransposed(sum);
  }

  SharedMatrix Add(const SharedMatrix& a, const SharedMatrix& b) {
    SharedMatrix& sum = sums_[{a.get(), b.get(), nullptr}];
    if (sum == nullptr) {
      auto added = std::make_shared<ByteMatrix>(*a);
      for (size_t i = 0; i < added->entries.size(); ++i) added->entries[i] += b->entries[i];
      sum = added;
      kept_.push_back(a);
      kept_.push_back(b);
    }
    return sum;
  }

  void Remove(int v) {
    is_gone_[v] = true;
    const std::map<int, SharedMatrix> around = std::move(neighbours_[v]);
    neighbours_[v].clear();
    for (const auto& [other, table] : around) {
      neighbours_[other].erase(v);
      waiting_.push_back(other);
    }
    if (around.size() == 1) AddToUnary(around.begin()->first, *around.begin()->second, *unary_[v]);
    if (around.size() == 2) {
      const auto& [u, from_u] = *around.begin();
      const auto& [w, from_w] = *around.rbegin();
      Connect(u, w, Minimise(from_u, from_w, unary_[v]));
    }
    if (around.empty()) constant_ += *std::min_element(unary_[v]->begin(), unary_[v]->end());
  }

  void AddToUnary(int other, const ByteMatrix& table, const std::vector<int64_t>& unary) {
    std::vector<int64_t> sum = *unary_[other];
    for (size_t y = 0; y < sum.size(); ++y) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (size_t x = 0; x < unary.size(); ++x) least = std::min(least, unary[x] + table.at(x, y));
      sum[y] += least;
    }
    unary_[other] = Share(std::move(sum));
  }

  /*! \brief Return the table over (u, w). Rows of `u` and `w` are values of the eliminated
   * variable. */
  SharedMatrix Minimise(const SharedMatrix& u, const SharedMatrix& w, const SharedVector& unary) {
    SharedMatrix& known = minima_[{u.get(), w.get(), unary.get()}];
    if (known != nullptr) return known;
    auto least = std::make_shared<ByteMatrix>();
    least->rows = u->columns;
    least->columns = w->columns;
    least->entries.assign(least->rows * least->columns, std::numeric_limits<int64_t>::max());
    for (size_t x = 0; x < unary->size(); ++x) {
      const int64_t* row = w->row(x);
      for (size_t y = 0; y < least->rows; ++y) {
        LowerTo((*unary)[x] + u->at(x, y), row, least->columns, least->row(y));
      }
    }
    kept_.push_back(u);
    kept_.push_back(w);
    known = least;
    return known;
  }

  Contraction Collect() const {
    Contraction contraction;
    std::vector<int> numbers(size(), -1);
    for (int v = 0; v < size(); ++v) {
      if (is_gone_[v]) continue;
      numbers[v] = static_cast<int>(contraction.variables.size());
      contraction.variables.push_back(v);
      contraction.problem.unary.push_back(ToWeights(*unary_[v]));
    }
    for (int v : contraction.variables) {
      for (const auto& [other, table] : neighbours_[v]) {
        if (v < other) contraction.problem.pairs.push_back({numbers[v], numbers[other], table});
      }
    }
    contraction.constant = constant_;
    return contraction;
  }

  double max_operations_;
  std::vector<SharedVector> unary_;
  std::vector<std::map<int, SharedMatrix>> neighbours_;  // rows are values of the variable itself
  std::vector<char> is_gone_;
  std::vector<int> waiting_;
  int64_t constant_ = 0;
  std::map<std::vector<int64_t>, SharedVector> vectors_;
  std::map<const ByteMatrix*, SharedMatrix> transposed_;
  std::map<Key, SharedMatrix> sums_;
  std::map<Key, SharedMatrix> minima_;
  std::vector<SharedMatrix> kept_;  // keeps tables alive that keys point to
};

}  // namespace

Contraction Contract(const PairwiseProblem& problem, double max_operations) {
  return Contractor(problem, max_operations).Run();
}

}  // namespace tofu
