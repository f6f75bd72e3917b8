/*!
 * \file bucket_tree.cc
 * \brief Buckets and mini-buckets, in the order in which variables are eliminated.
 */
#include "core/bounds/bucket_tree.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

namespace tofu {

namespace {

/*! \brief The most tables of a mini-bucket: with a correction and messages their sum does not
 * overflow. */
constexpr size_t kMaxTables = 12;

/*! \brief Additions that a place of a variable in a table counts for. */
constexpr double kAdditionsPerNeighbour = 300;

class TreeGrowth {
 public:
  TreeGrowth(const PairwiseProblem& problem, int64_t unit, size_t max_entries)
      : max_entries_(max_entries),
        of_variable_(problem.size()),
        sizes_(problem.size()),
        logs_(problem.size()),
        is_exact_(problem.size(), 0) {
    tree_.unit = unit;
    for (const std::vector<Weight>& unary : problem.unary)
      tree_.domain_sizes.push_back(unary.size());
    for (int v = 0; v < problem.size(); ++v) AddToProblem({v}, ListBytes(problem.unary[v]));
    for (const PairTable& pair : problem.pairs)
      AddToProblem({pair.first, pair.second}, pair.bytes->entries);
  }

  BucketTree Run(const MiniBucketPause& pause) {
    Count(distinct_.num_entries());
    for (int v = 0; v < static_cast<int>(sizes_.size()); ++v) Enqueue(v);
    while (!queue_.empty()) {
      const int v = queue_.begin()->second;
      queue_.erase(queue_.begin());
      if (is_exact_[v] == 0) {
        Enqueue(v);
        continue;
      }
      Eliminate(v);
      pause(std::exchange(additions_, 0), distinct_.num_entries());
    }
    tree_.num_entries = distinct_.num_entries();
    return std::move(tree_);
  }

 private:
  void AddToProblem(std::vector<int> scope, const std::vector<int64_t>& bytes) {
    Costs costs;
    costs.reserve(bytes.size());
    for (int64_t entry : bytes)
      costs.push_back(static_cast<Cost>(std::min<int64_t>(entry / tree_.unit, kMaxCost)));
    CostTable table{std::move(scope), std::make_shared<Costs>(std::move(costs))};
    const int number = distinct_.Add(&table.entries);
    Add({std::move(table), number, -1});
  }

  void Add(Factor factor) {
    for (int v : factor.table.scope) of_variable_[v].push_back(static_cast<int>(factors_.size()));
    factors_.push_back(std::move(factor));
  }

  /*! \brief Return the variables that share a table with v, and v. */
  std::vector<int> FindAround(int v) {
    std::vector<int>& ids = of_variable_[v];
    const auto is_taken = [this](int id) { return factors_[id].table.scope.empty(); };
    ids.erase(std::remove_if(ids.begin(), ids.end(), is_taken), ids.end());
    std::vector<int> around;
    for (int id : ids) {
      const std::vector<int>& scope = factors_[id].table.scope;
      around.insert(around.end(), scope.begin(), scope.end());
    }
    additions_ += kAdditionsPerNeighbour * static_cast<double>(around.size());
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    return around;
  }

  /*! \brief Queue a variable. The one with the smallest joint table comes first. */
  void Enqueue(int v) {
    const std::vector<int> around = FindAround(v);
    sizes_[v] = CountEntries(around);
    logs_[v] = 0;
    for (int u : around) logs_[v] += std::log(static_cast<double>(tree_.domain_sizes[u]));
    is_exact_[v] = 1;
    queue_.emplace(sizes_[v], v);
  }

  /*! \brief Update the place of v in the queue after the neighbour `gone` was eliminated. All
   * other neighbours remain. So this bounds the entries of the joint table, which are counted again
   * only when v comes first. */
  void Requeue(int v, int gone) {
    constexpr double kRounding = 1 - 1e-6;
    constexpr double kMostLog = 709;  // larger numbers have an infinite exponential
    if (queue_.erase({sizes_[v], v}) == 0) return;
    logs_[v] -= std::log(static_cast<double>(tree_.domain_sizes[gone]));
    sizes_[v] = kRounding * std::exp(std::min(logs_[v], kMostLog));
    is_exact_[v] = 0;
    queue_.emplace(sizes_[v], v);
  }

  double CountEntries(const std::vector<int>& scope) const {
    double entries = 1;
    for (int v : scope) entries *= static_cast<double>(tree_.domain_sizes[v]);
    return entries;
  }

  /*! \brief Return the entries of a table over both scopes, of which the first is sorted. */
  double CountJoined(const std::vector<int>& sorted, const std::vector<int>& scope) const {
    double entries = CountEntries(sorted);
    for (int v : scope) {
      if (!std::binary_search(sorted.begin(), sorted.end(), v))
        entries *= static_cast<double>(tree_.domain_sizes[v]);
    }
    return entries;
  }

  static std::vector<int> Join(const std::vector<int>& a, std::vector<int> b) {
    std::sort(b.begin(), b.end());
    std::vector<int> joined;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(joined));
    return joined;
  }

  void Eliminate(int v) {
    const std::vector<int> around = FindAround(v);
    std::vector<Factor> factors = TakeFactors(v);
    std::vector<int> key = Describe(v, around, factors);
    additions_ += kAdditionsPerNeighbour * static_cast<double>(key.size());
    const int alike = alike_.emplace(key, static_cast<int>(tree_.buckets.size())).first->second;
    for (const Factor& factor : factors) key.push_back(factor.mini_bucket);
    const auto found = known_.emplace(std::move(key), static_cast<int>(tree_.buckets.size()));
    if (found.second) MakeBucket(v, around, std::move(factors), alike);
    Bucket& bucket = tree_.buckets[found.first->second];
    bucket.variables.push_back(v);
    for (int m = bucket.first; m < bucket.end; ++m) {
      const MiniBucket& mini = tree_.mini_buckets[m];
      tree_.constant += mini.least;
      CostTable minimum = Rename(mini.minimum, bucket.around, around);
      if (!minimum.scope.empty()) Add({std::move(minimum), mini.costs, m});
    }
    for (int u : around) Requeue(u, v);
  }

  /*! \brief Rename the variables of a table to those at the same places around another bucket. */
  static CostTable Rename(CostTable table, const std::vector<int>& from,
                          const std::vector<int>& to) {
    for (int& u : table.scope) u = to[std::lower_bound(from.begin(), from.end(), u) - from.begin()];
    return table;
  }

  /*! \brief Remove the tables that still hold v, those with the most variables first. */
  std::vector<Factor> TakeFactors(int v) {
    std::vector<Factor> taken;
    for (int id : of_variable_[v]) {
      if (factors_[id].table.scope.empty()) continue;
      taken.push_back(std::move(factors_[id]));
      factors_[id] = Factor();
    }
    std::sort(taken.begin(), taken.end(), [](const Factor& a, const Factor& b) {
      const std::vector<int>& of_a = a.table.scope;
      const std::vector<int>& of_b = b.table.scope;
      if (of_a.size() != of_b.size()) return of_a.size() > of_b.size();
      return of_a != of_b ? of_a < of_b : a.costs < b.costs;
    });
    return taken;
  }

  /*! \brief Return all that the minima of a bucket depend on, with variables numbered by their
   * places around it. */
  std::vector<int> Describe(int v, const std::vector<int>& around,
                            const std::vector<Factor>& factors) const {
    const auto place = [&](int u) {
      return static_cast<int>(std::lower_bound(around.begin(), around.end(), u) - around.begin());
    };
    std::vector<int> key = {place(v), static_cast<int>(around.size())};
    for (int u : around) key.push_back(static_cast<int>(tree_.domain_sizes[u]));
    for (const Factor& factor : factors) {
      key.push_back(factor.costs);
      for (int u : factor.table.scope) key.push_back(place(u));
      key.push_back(-1);
    }
    return key;
  }

  /*! \brief Add a bucket. If `alike` is an earlier one, its results are reused. */
  void MakeBucket(int v, const std::vector<int>& around, std::vector<Factor> factors, int alike) {
    std::vector<MiniBucket> parts = Split(v, std::move(factors));
    if (alike < static_cast<int>(tree_.buckets.size())) {
      Repeat(tree_.buckets[alike], around, &parts);
    } else {
      if (parts.size() > 1) Match(v, &parts);
      for (MiniBucket& part : parts) Minimise(v, &part);
    }
    const int first = static_cast<int>(tree_.mini_buckets.size());
    const int end = first + static_cast<int>(parts.size());
    tree_.buckets.push_back({around, {}, first, end, alike});
    for (MiniBucket& part : parts) {
      Count(part.minimum.entries->size());
      tree_.mini_buckets.push_back(std::move(part));
    }
  }

  void Count(size_t entries) {
    num_entries_ += entries;
    if (num_entries_ > kMaxMiniBucketEntries)
      throw std::length_error("the tables of a bound pass the memory that they may take");
  }

  /*! \brief Copy corrections and minima from a bucket of equal tables. */
  void Repeat(const Bucket& known, const std::vector<int>& around,
              std::vector<MiniBucket>* parts) const {
    for (size_t i = 0; i < parts->size(); ++i) {
      const MiniBucket& from = tree_.mini_buckets[known.first + i];
      MiniBucket& to = (*parts)[i];
      for (size_t f = to.factors.size(); f < from.factors.size(); ++f)
        to.factors.push_back({Rename(from.factors[f].table, known.around, around), -1, -1});
      to.minimum = Rename(from.minimum, known.around, around);
      to.costs = from.costs;
      to.least = from.least;
    }
  }

  /*! \brief Put each table into the first mini-bucket whose minimum stays within the limit. */
  std::vector<MiniBucket> Split(int v, std::vector<Factor> factors) const {
    std::vector<MiniBucket> parts;
    for (Factor& factor : factors) {
      std::vector<int> scope = factor.table.scope;
      scope.erase(std::find(scope.begin(), scope.end(), v));
      const auto fits = [&](const MiniBucket& part) {
        return part.factors.size() < kMaxTables &&
               CountJoined(part.scope, scope) <= static_cast<double>(max_entries_);
      };
      auto found = std::find_if(parts.begin(), parts.end(), fits);
      if (found == parts.end()) found = parts.insert(parts.end(), MiniBucket());
      found->scope = Join(found->scope, std::move(scope));
      found->factors.push_back(std::move(factor));
    }
    return parts;
  }

  /*! \brief Correct all parts by the mean of their least costs, so that each value of v costs the
   * same in all of them. */
  void Match(int v, std::vector<MiniBucket>* parts) {
    std::vector<int64_t> total(tree_.domain_sizes[v], 0);
    std::vector<CostTable> least;
    for (const MiniBucket& part : *parts) {
      least.push_back(Project(Tables(part), {v}, tree_.domain_sizes, &additions_));
      for (size_t x = 0; x < total.size(); ++x) total[x] += (*least.back().entries)[x];
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      auto correction = std::make_shared<Costs>();
      for (size_t x = 0; x < total.size(); ++x)
        correction->push_back(static_cast<Cost>(total[x] / static_cast<int64_t>(parts->size()) -
                                                (*least[i].entries)[x]));
      (*parts)[i].factors.push_back({{{v}, std::move(correction)}, -1, -1});
    }
  }

  void Minimise(int v, MiniBucket* part) {
    part->minimum = MinimiseOut(Tables(*part), v, tree_.domain_sizes, &additions_, &part->least);
    tree_.largest_minimum = std::max(tree_.largest_minimum, part->minimum.entries->size());
    part->costs = distinct_.Add(&part->minimum.entries);
  }

  size_t max_entries_;
  BucketTree tree_;
  DistinctCosts distinct_;
  size_t num_entries_ =
      0;  // entries of all tables, with each use of a minimum, as the backward pass may need
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> of_variable_;  // tables with the variable; some are taken
  // By variable: the entries of the joint table of its neighbours, or a lower bound of them.
  std::vector<double> sizes_;
  std::vector<double> logs_;                // the logarithms of the sizes
  std::vector<char> is_exact_;              // by variable: false if its size is a bound
  std::set<std::pair<double, int>> queue_;  // variables by size
  std::map<std::vector<int>, int> alike_;   // the first bucket with certain tables
  std::map<std::vector<int>, int>
      known_;             // the bucket with certain tables from certain mini-buckets
  double additions_ = 0;  // additions since the last pause
};

}  // namespace

std::vector<const CostTable*> Tables(const MiniBucket& mini_bucket) {
  std::vector<const CostTable*> tables;
  for (const Factor& factor : mini_bucket.factors) tables.push_back(&factor.table);
  return tables;
}

BucketTree GrowBucketTree(const PairwiseProblem& problem, int64_t unit, size_t max_entries,
                          const MiniBucketPause& pause) {
  return TreeGrowth(problem, unit, max_entries).Run(pause);
}

}  // namespace tofu
