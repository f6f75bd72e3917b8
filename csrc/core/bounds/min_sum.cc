/*!
 * \file min_sum.cc
 */
#include "core/bounds/min_sum.h"

#include <atomic>
#include <deque>
#include <set>

#include "core/base/parallel.h"
#include "core/bounds/bucket_blocks.h"
#include "core/bounds/rearrange.h"

namespace tofu {

namespace {

/*! \brief Return the fewest assignments for which another thread saves time. */
size_t ChooseGrain(const BucketBlocks& blocks) {
  constexpr size_t kOperations = size_t{1} << 21;
  return kOperations / (blocks.rows() * blocks.columns()) + 1;
}

}  // namespace

CostTable MinimiseOut(const std::vector<const CostTable*>& tables, int variable,
                      const std::vector<size_t>& domain_sizes, double* additions, Cost* least) {
  const BucketBlocks blocks(tables, variable, domain_sizes);
  auto entries = std::make_shared<Costs>(blocks.count() * blocks.columns());
  *additions += static_cast<double>(entries->size() * blocks.rows());
  std::atomic<Cost> least_of_all{kMaxCost};
  ParallelFor(blocks.count(), ChooseGrain(blocks), [&](size_t begin, size_t end) {
    const Cost least_here = blocks.Minimise(begin, end, entries->data());
    Cost known = least_of_all;
    while (least_here < known && !least_of_all.compare_exchange_weak(known, least_here)) {
    }
  });
  if (least != nullptr) {
    *least = least_of_all;
    ParallelFor(entries->size(), kEntriesOfPass, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) (*entries)[i] -= *least;
    });
  }
  return {blocks.scope(), std::move(entries)};
}

namespace {

/*! \brief The sum of tables whose variables are exactly `scope`. */
CostTable Sum(const std::vector<const CostTable*>& tables, const std::vector<int>& scope,
              const std::vector<size_t>& domain_sizes) {
  size_t count = 1;
  for (int v : scope) count *= domain_sizes[v];
  auto sum = std::make_shared<Costs>(count);
  CopyRearranged(*tables.front(), scope, domain_sizes, sum->data());
  for (size_t i = 1; i < tables.size(); ++i)
    AddRearranged(*tables[i], scope, domain_sizes, sum->data());
  ParallelFor(count, kEntriesOfPass, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) (*sum)[i] = std::min((*sum)[i], kMaxCost);
  });
  return {scope, std::move(sum)};
}

}  // namespace

CostTable Project(std::vector<const CostTable*> tables, const std::vector<int>& keep,
                  const std::vector<size_t>& domain_sizes, double* additions) {
  std::set<int> rest;
  for (const CostTable* table : tables) rest.insert(table->scope.begin(), table->scope.end());
  for (int v : keep) rest.erase(v);
  std::deque<CostTable> minima;
  for (int v : rest) {
    const auto of_v = std::partition(tables.begin(), tables.end(),
                                     [&](const CostTable* table) { return !table->Holds(v); });
    minima.push_back(MinimiseOut({of_v, tables.end()}, v, domain_sizes, additions));
    tables.erase(of_v, tables.end());
    tables.push_back(&minima.back());
  }
  return Sum(tables, keep, domain_sizes);
}

namespace {

/*! \brief Hash the number of entries and some of the entries. */
size_t HashSome(const Costs& costs) {
  constexpr size_t kSome = 256;
  uint64_t hash = costs.size();
  const size_t step = costs.size() / kSome + 1;
  for (size_t i = 0; i < costs.size(); i += step) {
    hash = (hash ^ static_cast<uint32_t>(costs[i])) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

int DistinctCosts::Add(SharedCosts* costs) {
  const size_t hash = HashSome(**costs);
  const auto [begin, end] = known_.equal_range(hash);
  const auto found = std::find_if(
      begin, end, [&](const auto& candidate) { return *candidate.second.costs == **costs; });
  if (found != end) {
    *costs = found->second.costs;
    return found->second.number;
  }
  num_entries_ += (*costs)->size();
  const int number = static_cast<int>(known_.size());
  known_.emplace(hash, Known{*costs, number});
  return number;
}

}  // namespace tofu
