/*!
 * \file mini_buckets.cc
 * \brief Buckets, their parts, and the way back.
 */
#include "mini_buckets.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "min_sum.h"

namespace tofu {

namespace {

/*! \brief Of one part: with a correction and what others cost, they add up without overflow. */
constexpr size_t kMaxTables = 12;

/*! \brief A table, and the part whose minimum it is; -1 for one of the problem. */
struct OwnedTable {
  CostTable table;
  int part = -1;
};

/*! \brief Tables of one variable that are minimised together. */
struct Part {
  int variable = 0;
  std::vector<OwnedTable> tables;
  std::vector<int> scope;  // the other variables, ascending
  Cost least = 0;          // what its tables cost at least
  CostTable others;        // over scope: what all other parts cost at least, more than the bound
};

class MiniBuckets {
 public:
  MiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries)
      : unit_((most + kMaxCost - 1) / kMaxCost),
        max_entries_(max_entries),
        of_variable_(problem.size()),
        sizes_(problem.size()) {
    for (const std::vector<Weight>& unary : problem.unary) domain_sizes_.push_back(unary.size());
    for (int v = 0; v < problem.size(); ++v) {
      CostTable table{{v}, {}};
      for (Weight weight : problem.unary[v]) table.entries.push_back(ToCost(WeightBytes(weight)));
      Add({std::move(table), -1});
    }
    for (const PairTable& pair : problem.pairs) {
      CostTable table{{pair.first, pair.second}, {}};
      for (int64_t bytes : pair.bytes->entries) table.entries.push_back(ToCost(bytes));
      Add({std::move(table), -1});
    }
  }

  MiniBucketBound Run(const std::function<void(double)>& pause) {
    for (int v = 0; v < static_cast<int>(sizes_.size()); ++v) Wait(v);
    while (!waiting_.empty()) {
      const int v = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      Eliminate(v);
      pause(std::exchange(additions_, 0));
    }
    for (size_t count : domain_sizes_) bound_.excess.emplace_back(count, 0);
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      GoBack(&*part);
      pause(std::exchange(additions_, 0));
    }
    bound_.bytes = constant_ * unit_;
    return std::move(bound_);
  }

 private:
  Cost ToCost(int64_t bytes) const {
    return static_cast<Cost>(std::min<int64_t>(bytes / unit_, kMaxCost));
  }

  void Add(OwnedTable table) {
    bound_.num_entries += table.table.entries.size();
    if (bound_.num_entries > kMaxMiniBucketEntries)
      throw std::length_error("the tables of a bound pass the memory that they may take");
    for (int v : table.table.scope) of_variable_[v].push_back(static_cast<int>(tables_.size()));
    tables_.push_back(std::move(table));
  }

  std::vector<int> FindAround(int v) const {
    std::vector<int> around;
    for (int id : of_variable_[v]) around = Join(around, tables_[id].table.scope);
    return around;
  }

  /*! \brief The variable of the smallest joint table is next. */
  void Wait(int v) {
    sizes_[v] = CountEntries(FindAround(v));
    waiting_.emplace(sizes_[v], v);
  }

  double CountEntries(const std::vector<int>& scope) const {
    double entries = 1;
    for (int v : scope) entries *= static_cast<double>(domain_sizes_[v]);
    return entries;
  }

  static std::vector<int> Join(const std::vector<int>& a, std::vector<int> b) {
    std::sort(b.begin(), b.end());
    std::vector<int> joined;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(joined));
    return joined;
  }

  static std::vector<const CostTable*> Plain(const std::vector<OwnedTable>& tables) {
    std::vector<const CostTable*> plain;
    for (const OwnedTable& owned : tables) plain.push_back(&owned.table);
    return plain;
  }

  void Eliminate(int v) {
    const std::vector<int> around = FindAround(v);
    std::vector<Part> parts = Split(v, TakeTables(v));
    if (parts.size() > 1) Match(v, &parts);
    for (Part& part : parts) Minimise(std::move(part));
    for (int u : around) {
      if (waiting_.erase({sizes_[u], u}) > 0) Wait(u);
    }
  }

  /*! \brief The tables that still hold v, those of most variables first. */
  std::vector<OwnedTable> TakeTables(int v) {
    std::vector<OwnedTable> taken;
    for (int id : of_variable_[v]) {
      if (tables_[id].table.scope.empty()) continue;
      taken.push_back(std::move(tables_[id]));
      tables_[id] = OwnedTable();
    }
    std::stable_sort(taken.begin(), taken.end(), [](const OwnedTable& a, const OwnedTable& b) {
      return a.table.scope.size() > b.table.scope.size();
    });
    return taken;
  }

  /*! \brief Each table goes to the first part whose minimum stays within the limit. */
  std::vector<Part> Split(int v, std::vector<OwnedTable> tables) const {
    std::vector<Part> parts;
    for (OwnedTable& owned : tables) {
      std::vector<int> scope = owned.table.scope;
      scope.erase(std::find(scope.begin(), scope.end(), v));
      const auto fits = [&](const Part& part) {
        return part.tables.size() < kMaxTables &&
               CountEntries(Join(part.scope, scope)) <= static_cast<double>(max_entries_);
      };
      auto found = std::find_if(parts.begin(), parts.end(), fits);
      if (found == parts.end()) {
        found = parts.insert(parts.end(), Part());
        found->variable = v;
      }
      found->scope = Join(found->scope, std::move(scope));
      found->tables.push_back(std::move(owned));
    }
    return parts;
  }

  /*! \brief Has all parts cost the same for each value of v: the mean of what they cost at least.
   */
  void Match(int v, std::vector<Part>* parts) {
    std::vector<int64_t> total(domain_sizes_[v], 0);
    std::vector<CostTable> least;
    for (const Part& part : *parts) {
      least.push_back(Project(Plain(part.tables), {v}, domain_sizes_, &additions_));
      for (size_t x = 0; x < total.size(); ++x) total[x] += least.back().entries[x];
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      CostTable correction{{v}, {}};
      for (size_t x = 0; x < total.size(); ++x)
        correction.entries.push_back(static_cast<Cost>(
            total[x] / static_cast<int64_t>(parts->size()) - least[i].entries[x]));
      (*parts)[i].tables.push_back({std::move(correction), -1});
    }
  }

  void Minimise(Part part) {
    CostTable minimum = MinimiseOut(Plain(part.tables), part.variable, domain_sizes_, &additions_);
    part.least = *std::min_element(minimum.entries.begin(), minimum.entries.end());
    constant_ += part.least;
    bound_.largest_table = std::max(bound_.largest_table, minimum.entries.size());
    for (Cost& cost : minimum.entries) cost -= part.least;
    if (!part.scope.empty()) Add({std::move(minimum), static_cast<int>(parts_.size())});
    parts_.push_back(std::move(part));
  }

  /*! \brief Tells the parts below, and the variable, what the rest costs at least. */
  void GoBack(Part* part) {
    std::vector<const CostTable*> all = Plain(part->tables);
    if (!part->scope.empty()) all.push_back(&part->others);
    const CostTable of_values = Project(all, {part->variable}, domain_sizes_, &additions_);
    std::vector<int64_t>& excess = bound_.excess[part->variable];
    for (size_t x = 0; x < excess.size(); ++x)
      excess[x] = std::max(excess[x], (of_values.entries[x] - part->least) * unit_);
    for (const OwnedTable& owned : part->tables) {
      if (owned.part < 0) continue;
      CostTable others = Project(all, owned.table.scope, domain_sizes_, &additions_);
      for (size_t n = 0; n < others.entries.size(); ++n)
        others.entries[n] -= part->least + owned.table.entries[n];
      parts_[owned.part].others = std::move(others);
    }
    *part = Part();
  }

  int64_t unit_;  // bytes
  size_t max_entries_;
  std::vector<size_t> domain_sizes_;
  std::vector<OwnedTable> tables_;
  std::vector<std::vector<int>> of_variable_;  // tables that hold it, or held it
  std::vector<double> sizes_;                  // of joint tables
  std::set<std::pair<double, int>> waiting_;   // variables by size
  std::vector<Part> parts_;
  int64_t constant_ = 0;  // units
  double additions_ = 0;  // since the last pause
  MiniBucketBound bound_;
};

}  // namespace

MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const std::function<void(double)>& pause) {
  return MiniBuckets(problem, std::max<int64_t>(most, 1), max_entries).Run(pause);
}

}  // namespace tofu
