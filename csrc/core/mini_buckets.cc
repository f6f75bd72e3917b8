/*!
 * \file mini_buckets.cc
 * \brief Buckets, their parts, and the way back.
 */
#include "mini_buckets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "min_sum.h"
#include "parallel.h"

namespace tofu {

namespace {

/*! \brief Of one part: with a correction and what others cost, they add up without overflow. */
constexpr size_t kMaxTables = 12;

/*! \brief A table in a bucket. */
struct Factor {
  CostTable table;
  int costs = -1;  // equal for equal entries
  int part = -1;   // whose minimum it is; -1 for one of the problem
};

/*! \brief Tables of one variable that are minimised together. */
struct Part {
  std::vector<Factor> factors;
  std::vector<int> scope;  // the other variables, ascending
  CostTable minimum;       // more than `least`
  int costs = -1;          // of the minimum
  Cost least = 0;          // what its tables cost at least
  SharedCosts others;      // over the minimum's scope: what all other parts cost at least, more
                           // than the bound; none until one of them has told
};

/*! \brief The bucket of a variable, and of all variables whose buckets hold the same tables. */
struct Bucket {
  std::vector<int> around;  // its variables, ascending; the tables are over these
  int first_part = 0;       // those of one bucket follow each other
  int num_parts = 0;
  std::vector<int> variables;  // that are minimised out
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
      std::vector<Cost> costs;
      for (Weight weight : problem.unary[v]) costs.push_back(ToCost(WeightBytes(weight)));
      AddToProblem({v}, std::move(costs));
    }
    for (const PairTable& pair : problem.pairs) {
      std::vector<Cost> costs;
      for (int64_t bytes : pair.bytes->entries) costs.push_back(ToCost(bytes));
      AddToProblem({pair.first, pair.second}, std::move(costs));
    }
  }

  MiniBucketBound Run(const MiniBucketPause& pause) {
    for (int v = 0; v < static_cast<int>(sizes_.size()); ++v) Wait(v);
    while (!waiting_.empty()) {
      const int v = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      Eliminate(v);
      pause(std::exchange(additions_, 0), num_entries_);
    }
    for (size_t count : domain_sizes_) bound_.excess.emplace_back(count, 0);
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      GoBack(*bucket);
      pause(std::exchange(additions_, 0), num_entries_);
    }
    bound_.bytes = constant_ * unit_;
    return std::move(bound_);
  }

 private:
  Cost ToCost(int64_t bytes) const {
    return static_cast<Cost>(std::min<int64_t>(bytes / unit_, kMaxCost));
  }

  void AddToProblem(std::vector<int> scope, std::vector<Cost> costs) {
    const auto found = of_problem_.emplace(std::move(costs), nullptr);
    if (found.second) {
      found.first->second = std::make_shared<std::vector<Cost>>(found.first->first);
      ids_.emplace(found.first->second.get(), CountCosts(found.first->first));
    }
    const SharedCosts& shared = found.first->second;
    Add({{std::move(scope), shared}, ids_.at(shared.get()), -1});
  }

  /*! \brief A number for new entries. */
  int CountCosts(const std::vector<Cost>& costs) {
    num_entries_ += costs.size();
    if (num_entries_ > kMaxMiniBucketEntries)
      throw std::length_error("the tables of a bound pass the memory that they may take");
    return num_costs_++;
  }

  void Add(Factor factor) {
    for (int v : factor.table.scope) of_variable_[v].push_back(static_cast<int>(factors_.size()));
    factors_.push_back(std::move(factor));
  }

  std::vector<int> FindAround(int v) const {
    std::vector<int> around;
    for (int id : of_variable_[v]) around = Join(around, factors_[id].table.scope);
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

  static std::vector<const CostTable*> Plain(const std::vector<Factor>& factors) {
    std::vector<const CostTable*> plain;
    for (const Factor& factor : factors) plain.push_back(&factor.table);
    return plain;
  }

  void Eliminate(int v) {
    const std::vector<int> around = FindAround(v);
    std::vector<Factor> factors = TakeFactors(v);
    const auto found =
        known_.emplace(Describe(v, around, factors), static_cast<int>(buckets_.size()));
    if (found.second) MakeBucket(v, around, std::move(factors));
    Bucket& bucket = buckets_[found.first->second];
    bucket.variables.push_back(v);
    for (int p = bucket.first_part; p < bucket.first_part + bucket.num_parts; ++p) {
      const Part& part = parts_[p];
      constant_ += part.least;
      std::vector<int> scope;
      for (int u : part.minimum.scope)
        scope.push_back(around[std::lower_bound(bucket.around.begin(), bucket.around.end(), u) -
                               bucket.around.begin()]);
      if (!scope.empty()) Add({{std::move(scope), part.minimum.entries}, part.costs, p});
    }
    for (int u : around) {
      if (waiting_.erase({sizes_[u], u}) > 0) Wait(u);
    }
  }

  /*! \brief The tables that still hold v, those of most variables first. */
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

  /*! \brief All that the parts of a bucket depend on, with variables by their places around it. */
  std::vector<int> Describe(int v, const std::vector<int>& around,
                            const std::vector<Factor>& factors) const {
    const auto place = [&](int u) {
      return static_cast<int>(std::lower_bound(around.begin(), around.end(), u) - around.begin());
    };
    std::vector<int> key = {place(v), static_cast<int>(around.size())};
    for (int u : around) key.push_back(static_cast<int>(domain_sizes_[u]));
    for (const Factor& factor : factors) {
      key.push_back(factor.costs);
      for (int u : factor.table.scope) key.push_back(place(u));
      key.push_back(-1);
    }
    return key;
  }

  void MakeBucket(int v, const std::vector<int>& around, std::vector<Factor> factors) {
    std::vector<Part> parts = Split(v, std::move(factors));
    if (parts.size() > 1) Match(v, &parts);
    buckets_.push_back(
        {around, static_cast<int>(parts_.size()), static_cast<int>(parts.size()), {}});
    for (Part& part : parts) Minimise(v, std::move(part));
  }

  /*! \brief Each table goes to the first part whose minimum stays within the limit. */
  std::vector<Part> Split(int v, std::vector<Factor> factors) const {
    std::vector<Part> parts;
    for (Factor& factor : factors) {
      std::vector<int> scope = factor.table.scope;
      scope.erase(std::find(scope.begin(), scope.end(), v));
      const auto fits = [&](const Part& part) {
        return part.factors.size() < kMaxTables &&
               CountEntries(Join(part.scope, scope)) <= static_cast<double>(max_entries_);
      };
      auto found = std::find_if(parts.begin(), parts.end(), fits);
      if (found == parts.end()) found = parts.insert(parts.end(), Part());
      found->scope = Join(found->scope, std::move(scope));
      found->factors.push_back(std::move(factor));
    }
    return parts;
  }

  /*! \brief Has all parts cost the same for each value of v: the mean of what they cost at least.
   */
  void Match(int v, std::vector<Part>* parts) {
    std::vector<int64_t> total(domain_sizes_[v], 0);
    std::vector<CostTable> least;
    for (const Part& part : *parts) {
      least.push_back(Project(Plain(part.factors), {v}, domain_sizes_, &additions_));
      for (size_t x = 0; x < total.size(); ++x) total[x] += (*least.back().entries)[x];
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      auto correction = std::make_shared<std::vector<Cost>>();
      for (size_t x = 0; x < total.size(); ++x)
        correction->push_back(static_cast<Cost>(total[x] / static_cast<int64_t>(parts->size()) -
                                                (*least[i].entries)[x]));
      (*parts)[i].factors.push_back({{{v}, std::move(correction)}, -1, -1});
    }
  }

  void Minimise(int v, Part part) {
    part.minimum = MinimiseOut(Plain(part.factors), v, domain_sizes_, &additions_, &part.least);
    bound_.largest_table = std::max(bound_.largest_table, part.minimum.entries->size());
    part.costs = CountCosts(*part.minimum.entries);
    parts_.push_back(std::move(part));
  }

  /*! \brief Tells the parts below, and the variables, what the rest costs at least. */
  void GoBack(const Bucket& bucket) {
    for (int p = bucket.first_part; p < bucket.first_part + bucket.num_parts; ++p) {
      const Part part = std::move(parts_[p]);
      std::vector<const CostTable*> all = Plain(part.factors);
      const CostTable others{part.minimum.scope, part.others};
      if (!part.scope.empty()) all.push_back(&others);
      std::vector<CostTable> sums;  // over fewer and fewer variables, the bucket's among them
      for (const Factor& factor : part.factors) {
        if (factor.part < 0) continue;
        const CostTable* known = FindNarrowest(sums, factor.table.scope);
        if (known == nullptr || known->scope != factor.table.scope) {
          sums.push_back(Project(known == nullptr ? all : std::vector<const CostTable*>{known},
                                 factor.table.scope, domain_sizes_, &additions_));
          known = &sums.back();
        }
        Tell(*known, factor, part.least);
      }
      if (!sums.empty()) all = {&sums.back()};
      const int v = bucket.variables.front();
      const CostTable of_values = Project(all, {v}, domain_sizes_, &additions_);
      for (int u : bucket.variables) {
        std::vector<int64_t>& excess = bound_.excess[u];
        for (size_t x = 0; x < excess.size(); ++x)
          excess[x] = std::max(excess[x], ((*of_values.entries)[x] - part.least) * unit_);
      }
    }
  }

  /*! \brief Of sums over fewer and fewer variables, the last one that holds those of `scope`;
   * nullptr for none. */
  static const CostTable* FindNarrowest(const std::vector<CostTable>& sums,
                                        const std::vector<int>& scope) {
    for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) {
      const std::vector<int>& wider = sum->scope;
      const auto is_held = [&](int v) {
        return std::find(wider.begin(), wider.end(), v) != wider.end();
      };
      if (std::all_of(scope.begin(), scope.end(), is_held)) return &*sum;
    }
    return nullptr;
  }

  /*! \brief Of parts in equal buckets, each learns what the rest of any of them costs at least. */
  void Tell(const CostTable& sum, const Factor& factor, Cost least) {
    SharedCosts& known = parts_[factor.part].others;
    auto others = std::make_shared<std::vector<Cost>>(sum.entries->size());
    ParallelFor(others->size(), kEntriesOfPass, [&](size_t begin, size_t end) {
      for (size_t n = begin; n < end; ++n) {
        const Cost rest = (*sum.entries)[n] - least - (*factor.table.entries)[n];
        (*others)[n] = known == nullptr ? rest : std::min(rest, (*known)[n]);
      }
    });
    known = std::move(others);
  }

  int64_t unit_;  // bytes
  size_t max_entries_;
  std::vector<size_t> domain_sizes_;
  std::map<std::vector<Cost>, SharedCosts> of_problem_;
  std::map<const std::vector<Cost>*, int> ids_;
  int num_costs_ = 0;
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> of_variable_;  // tables that hold it, or held it
  std::vector<double> sizes_;                  // of joint tables
  std::set<std::pair<double, int>> waiting_;   // variables by size
  std::map<std::vector<int>, int> known_;      // buckets by what they hold
  std::vector<Bucket> buckets_;
  std::vector<Part> parts_;
  int64_t constant_ = 0;  // units
  size_t num_entries_ = 0;
  double additions_ = 0;  // since the last pause
  MiniBucketBound bound_;
};

}  // namespace

MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const MiniBucketPause& pause) {
  return MiniBuckets(problem, std::max<int64_t>(most, 1), max_entries).Run(pause);
}

}  // namespace tofu
