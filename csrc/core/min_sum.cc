/*!
 * \file min_sum.cc
 * \brief Loops over blocks: one variable of the scope and the one that goes, contiguous in memory.
 */
#include "min_sum.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "byte_loops.h"
#include "parallel.h"
#include "rearrange.h"

namespace tofu {

namespace {

TOFU_VECTORISED void AddBlock(const Cost* block, size_t count, Cost* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += block[i];
}

/*! \brief least[y] = min over x of [base[x] + block[x * stride + y]] for kTile columns, whose
 * minima stay in registers. */
template <size_t kTile>
[[gnu::always_inline]] inline void MinimiseTile(const Cost* base, const Cost* block, size_t rows,
                                                size_t stride, Cost* least) {
  Cost tile[kTile];
  for (size_t y = 0; y < kTile; ++y) tile[y] = std::numeric_limits<Cost>::max();
  for (size_t x = 0; x < rows; ++x) {
    const Cost* row = block + x * stride;
    for (size_t y = 0; y < kTile; ++y) tile[y] = std::min(tile[y], base[x] + row[y]);
  }
  for (size_t y = 0; y < kTile; ++y) least[y] = tile[y];
}

/*! \brief least[y] = min over x of [base[x] + block[x][y]]. */
TOFU_VECTORISED void MinimiseRows(const Cost* base, const Cost* block, size_t rows, size_t columns,
                                  Cost* least) {
  for (size_t begin = 0; begin < columns;) {
    size_t tile = 64;
    while (tile > columns || tile >= 2 * (columns - begin)) tile /= 2;
    // The last tile may begin among columns that are done: their minima come out the same.
    begin = std::min(begin, columns - tile);
    const Cost* from = block + begin;
    Cost* to = least + begin;
    switch (tile) {
      case 64:
        MinimiseTile<64>(base, from, rows, columns, to);
        break;
      case 32:
        MinimiseTile<32>(base, from, rows, columns, to);
        break;
      case 16:
        MinimiseTile<16>(base, from, rows, columns, to);
        break;
      case 8:
        MinimiseTile<8>(base, from, rows, columns, to);
        break;
      case 4:
        MinimiseTile<4>(base, from, rows, columns, to);
        break;
      case 2:
        MinimiseTile<2>(base, from, rows, columns, to);
        break;
      default:
        MinimiseTile<1>(base, from, rows, columns, to);
    }
    begin += tile;
  }
}

bool Holds(const CostTable& table, int variable) {
  return std::find(table.scope.begin(), table.scope.end(), variable) != table.scope.end();
}

/*!
 * \brief The tables of a bucket, each turned so that the variable x of the bucket, and after it the
 * variable y of the scope that is chosen as the inner one, come last.
 */
class Blocks {
 public:
  Blocks(const std::vector<const CostTable*>& tables, int variable,
         const std::vector<size_t>& domain_sizes)
      : sizes_(domain_sizes), rows_(domain_sizes[variable]) {
    std::map<int, int> occurrences;  // of the other variables, in tables
    for (const CostTable* table : tables) {
      for (int v : table->scope) ++occurrences[v];
    }
    occurrences.erase(variable);
    const int inner = ChooseInner(occurrences);
    for (const auto& [v, tables_of_v] : occurrences) {
      if (v != inner) outer_.push_back(v);
    }
    scope_ = outer_;
    if (inner >= 0) {
      scope_.push_back(inner);
      columns_ = sizes_[inner];
    }
    for (const CostTable* table : tables) Add(*table, variable, inner);
    for (int v : outer_) count_ *= sizes_[v];
  }

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  size_t count() const { return count_; }  // assignments of the outer variables
  /*! \brief The outer variables, then the inner one. */
  const std::vector<int>& scope() const { return scope_; }

  /*! \brief Room for the sums at one assignment. */
  struct Sums {
    std::vector<Cost> base;   // by x
    std::vector<Cost> block;  // by x and y, where more than one table has both
    const Cost* moving = nullptr;
  };

  void Compute(size_t assignment, Sums* sums) const {
    sums->base.assign(rows_, 0);
    for (const Turned& table : fixed_)
      AddBlock(table.At(assignment, *this), rows_, sums->base.data());
    if (moving_.size() == 1) {
      sums->moving = moving_.front().At(assignment, *this);
      return;
    }
    sums->block.assign(rows_ * columns_, 0);
    for (const Turned& table : moving_)
      AddBlock(table.At(assignment, *this), rows_ * columns_, sums->block.data());
    sums->moving = sums->block.data();
  }

 private:
  struct Turned {
    SharedCosts entries;
    std::vector<size_t> strides;  // by outer variable; 0 where the table lacks it

    const Cost* At(size_t assignment, const Blocks& blocks) const {
      size_t index = 0;
      for (size_t i = strides.size(); i-- > 0;) {
        const size_t size = blocks.sizes_[blocks.outer_[i]];
        index += assignment % size * strides[i];
        assignment /= size;
      }
      return entries->data() + index;
    }
  };

  /*! \brief The variable in fewest tables, of those the one of most values; -1 for none. */
  int ChooseInner(const std::map<int, int>& occurrences) const {
    int best = -1;
    for (const auto& [v, tables] : occurrences) {
      if (best < 0 || tables < occurrences.at(best) ||
          (tables == occurrences.at(best) && sizes_[v] > sizes_[best]))
        best = v;
    }
    return best;
  }

  void Add(const CostTable& table, int variable, int inner) {
    std::vector<int> order;
    for (int v : outer_) {
      if (Holds(table, v)) order.push_back(v);
    }
    const bool moves = inner < 0 ? moving_.empty() : Holds(table, inner);
    order.push_back(variable);
    if (moves && inner >= 0) order.push_back(inner);
    Turned turned{Turn(table, order), std::vector<size_t>(outer_.size(), 0)};
    size_t stride = moves ? rows_ * columns_ : rows_;
    for (size_t i = order.size() - (moves && inner >= 0 ? 2 : 1); i-- > 0;) {
      turned.strides[std::find(outer_.begin(), outer_.end(), order[i]) - outer_.begin()] = stride;
      stride *= sizes_[order[i]];
    }
    (moves ? moving_ : fixed_).push_back(std::move(turned));
  }

  /*! \brief The entries with the variables in another order. */
  SharedCosts Turn(const CostTable& table, const std::vector<int>& order) const {
    if (order == table.scope) return table.entries;
    auto turned = std::make_shared<std::vector<Cost>>(table.entries->size());
    AddRearranged(table, order, sizes_, turned->data());
    return turned;
  }

  const std::vector<size_t>& sizes_;
  size_t rows_;
  size_t columns_ = 1;
  size_t count_ = 1;
  std::vector<int> outer_;
  std::vector<int> scope_;
  std::vector<Turned> fixed_;
  std::vector<Turned> moving_;
};

/*! \brief Assignments that are worth a thread. */
size_t ChooseGrain(const Blocks& blocks) {
  constexpr size_t kOperations = size_t{1} << 21;
  return kOperations / (blocks.rows() * blocks.columns()) + 1;
}

}  // namespace

CostTable MinimiseOut(const std::vector<const CostTable*>& tables, int variable,
                      const std::vector<size_t>& domain_sizes, double* additions, Cost* least) {
  const Blocks blocks(tables, variable, domain_sizes);
  auto entries = std::make_shared<std::vector<Cost>>(blocks.count() * blocks.columns());
  *additions += static_cast<double>(entries->size() * blocks.rows());
  std::atomic<Cost> least_of_all{kMaxCost};
  ParallelFor(blocks.count(), ChooseGrain(blocks), [&](size_t begin, size_t end) {
    Blocks::Sums sums;
    Cost least_here = kMaxCost;
    for (size_t i = begin; i < end; ++i) {
      blocks.Compute(i, &sums);
      Cost* minima = entries->data() + i * blocks.columns();
      MinimiseRows(sums.base.data(), sums.moving, blocks.rows(), blocks.columns(), minima);
      for (size_t y = 0; y < blocks.columns(); ++y) {
        minima[y] = std::min(minima[y], kMaxCost);
        least_here = std::min(least_here, minima[y]);
      }
    }
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

/*! \brief The sum of tables of the variables in `scope` and no others. */
CostTable Sum(const std::vector<const CostTable*>& tables, const std::vector<int>& scope,
              const std::vector<size_t>& domain_sizes) {
  size_t count = 1;
  for (int v : scope) count *= domain_sizes[v];
  auto sum = std::make_shared<std::vector<Cost>>(count, 0);
  for (const CostTable* table : tables) AddRearranged(*table, scope, domain_sizes, sum->data());
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
                                     [&](const CostTable* table) { return !Holds(*table, v); });
    minima.push_back(MinimiseOut({of_v, tables.end()}, v, domain_sizes, additions));
    tables.erase(of_v, tables.end());
    tables.push_back(&minima.back());
  }
  return Sum(tables, keep, domain_sizes);
}

}  // namespace tofu
