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
#include <numeric>
#include <set>
#include <utility>

#include "byte_loops.h"
#include "parallel.h"
#include "rearrange.h"

namespace tofu {

namespace {

TOFU_VECTORISED void AddRow(const Cost* row, size_t count, Cost* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += row[i];
}

/*! \brief least[y] = min over x of [base[x] + block[x * stride + y]], or kMaxCost, for kTile
 * columns, whose minima stay in registers. */
template <size_t kTile>
[[gnu::always_inline]] inline void MinimiseTile(const Cost* base, const Cost* block, size_t rows,
                                                size_t stride, Cost* least) {
  Cost tile[kTile];
  for (size_t y = 0; y < kTile; ++y) tile[y] = kMaxCost;
  for (size_t x = 0; x < rows; ++x) {
    const Cost* row = block + x * stride;
    for (size_t y = 0; y < kTile; ++y) tile[y] = std::min(tile[y], base[x] + row[y]);
  }
  for (size_t y = 0; y < kTile; ++y) least[y] = tile[y];
}

/*! \brief The same for all columns; the least of all. */
TOFU_VECTORISED Cost MinimiseRows(const Cost* base, const Cost* block, size_t rows, size_t stride,
                                  size_t columns, Cost* least) {
  for (size_t begin = 0; begin < columns;) {
    size_t tile = 64;
    while (tile > columns || tile >= 2 * (columns - begin)) tile /= 2;
    // The last tile may begin among columns that are done: their minima come out the same.
    begin = std::min(begin, columns - tile);
    const Cost* from = block + begin;
    Cost* to = least + begin;
    switch (tile) {
      case 64:
        MinimiseTile<64>(base, from, rows, stride, to);
        break;
      case 32:
        MinimiseTile<32>(base, from, rows, stride, to);
        break;
      case 16:
        MinimiseTile<16>(base, from, rows, stride, to);
        break;
      case 8:
        MinimiseTile<8>(base, from, rows, stride, to);
        break;
      case 4:
        MinimiseTile<4>(base, from, rows, stride, to);
        break;
      case 2:
        MinimiseTile<2>(base, from, rows, stride, to);
        break;
      default:
        MinimiseTile<1>(base, from, rows, stride, to);
    }
    begin += tile;
  }
  Cost least_of_all = kMaxCost;
  for (size_t y = 0; y < columns; ++y) least_of_all = std::min(least_of_all, least[y]);
  return least_of_all;
}

bool Holds(const CostTable& table, int variable) {
  return std::find(table.scope.begin(), table.scope.end(), variable) != table.scope.end();
}

/*!
 * \brief The tables of a bucket, where needed turned so that one variable y of the scope, chosen as
 * the inner one, is contiguous in those that hold it, and the variable x that goes in the others.
 *
 * The tables of x and y are what takes time to read: of the other variables, the outer ones, those
 * that they lack move fastest, so that blocks of x and y stay in the cache.
 */
class Blocks {
 public:
  Blocks(const std::vector<const CostTable*>& tables, int variable,
         const std::vector<size_t>& domain_sizes)
      : sizes_(domain_sizes), variable_(variable), rows_(domain_sizes[variable]) {
    std::map<int, int> occurrences;  // of the other variables, in tables
    for (const CostTable* table : tables) {
      for (int v : table->scope) ++occurrences[v];
    }
    occurrences.erase(variable);
    inner_ = ChooseInner(occurrences);
    for (const auto& [v, tables_of_v] : occurrences) {
      if (v != inner_) outer_.push_back(v);
    }
    for (int v : outer_) count_ *= sizes_[v];
    scope_ = outer_;
    if (inner_ >= 0) {
      scope_.push_back(inner_);
      columns_ = sizes_[inner_];
    }
    OrderOuter(tables);
    for (const CostTable* table : tables) Add(*table);
    minima_ = Place({scope_, nullptr});
  }

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  size_t count() const { return count_; }  // assignments of the outer variables
  /*! \brief The outer variables, ascending, then the inner one. */
  const std::vector<int>& scope() const { return scope_; }

  /*! \brief The minima at some assignments of the outer variables go to their places in a table
   * over the scope; the least of them. */
  Cost Minimise(size_t begin, size_t end, Cost* minima) const {
    Costs base(rows_);
    Costs sum;  // by x and y, where not one table alone has both
    std::vector<size_t> digits(outer_.size());
    Cost least = kMaxCost;
    for (size_t assignment = begin; assignment < end; ++assignment) {
      size_t rest = assignment;
      for (size_t i = digits.size(); i-- > 0; rest /= sizes_[outer_[i]])
        digits[i] = rest % sizes_[outer_[i]];
      AddFixed(digits, &base);
      if (moving_.size() != 1 && (assignment == begin || assignment % num_still_ == 0))
        AddMoving(digits, &sum);
      const bool is_one = moving_.size() == 1;
      const Cost* block = is_one ? moving_[0].At(digits) : sum.data();
      const size_t stride = is_one ? moving_[0].row_stride : columns_;
      Cost* to = minima + minima_.Offset(digits);
      least = std::min(least, MinimiseRows(base.data(), block, rows_, stride, columns_, to));
    }
    return least;
  }

 private:
  struct Placed {
    SharedCosts entries;
    size_t row_stride = 0;
    std::vector<size_t> strides;  // by outer variable; 0 where the table lacks it

    size_t Offset(const std::vector<size_t>& digits) const {
      return std::inner_product(digits.begin(), digits.end(), strides.begin(), size_t{0});
    }
    const Cost* At(const std::vector<size_t>& digits) const {
      return entries->data() + Offset(digits);
    }
  };

  void AddFixed(const std::vector<size_t>& digits, Costs* base) const {
    base->assign(rows_, 0);
    for (const Placed& table : fixed_) {
      const Cost* from = table.At(digits);
      if (table.row_stride == 1) {
        AddRow(from, rows_, base->data());
      } else {
        for (size_t x = 0; x < rows_; ++x) (*base)[x] += from[x * table.row_stride];
      }
    }
  }

  void AddMoving(const std::vector<size_t>& digits, Costs* sum) const {
    sum->assign(rows_ * columns_, 0);
    for (const Placed& table : moving_) {
      const Cost* from = table.At(digits);
      for (size_t x = 0; x < rows_; ++x)
        AddRow(from + x * table.row_stride, columns_, sum->data() + x * columns_);
    }
  }

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

  bool Moves(const CostTable& table) const { return inner_ >= 0 && Holds(table, inner_); }

  void OrderOuter(const std::vector<const CostTable*>& tables) {
    const auto moves = [&](int v) {
      return std::any_of(tables.begin(), tables.end(),
                         [&](const CostTable* table) { return Moves(*table) && Holds(*table, v); });
    };
    const auto still = std::stable_partition(outer_.begin(), outer_.end(), moves);
    for (auto v = still; v != outer_.end(); ++v) num_still_ *= sizes_[*v];
  }

  void Add(const CostTable& table) {
    std::vector<int> last = {variable_};
    if (Moves(table)) last.push_back(inner_);
    (Moves(table) ? moving_ : fixed_)
        .push_back(Place(IsWorthTurning(table, last) ? TurnToEnd(table, last) : table));
  }

  Placed Place(const CostTable& table) const {
    Placed placed{table.entries, 0, std::vector<size_t>(outer_.size(), 0)};
    size_t stride = 1;
    for (size_t i = table.scope.size(); i-- > 0; stride *= sizes_[table.scope[i]]) {
      const int v = table.scope[i];
      if (v == variable_) {
        placed.row_stride = stride;
      } else if (v != inner_) {
        placed.strides[std::find(outer_.begin(), outer_.end(), v) - outer_.begin()] = stride;
      }
    }
    return placed;
  }

  /*! \brief To turn a table reads it once, in another order than it lies: what is read so once
   * anyway stays as it is, but for vectors. */
  bool IsWorthTurning(const CostTable& table, const std::vector<int>& last) const {
    if (std::equal(last.rbegin(), last.rend(), table.scope.rbegin())) return false;
    const bool moves = last.size() > 1;
    const size_t reads = count_ * rows_ * (moves ? columns_ : 1);
    return table.entries->size() < reads || (moves && table.scope.back() != last.back());
  }

  /*! \brief The table with the variables in `last` as its fastest ones. */
  CostTable TurnToEnd(const CostTable& table, const std::vector<int>& last) const {
    std::vector<int> scope;
    for (int v : table.scope) {
      if (std::find(last.begin(), last.end(), v) == last.end()) scope.push_back(v);
    }
    scope.insert(scope.end(), last.begin(), last.end());
    auto turned = std::make_shared<Costs>(table.entries->size());
    CopyRearranged(table, scope, sizes_, turned->data());
    return {std::move(scope), std::move(turned)};
  }

  const std::vector<size_t>& sizes_;
  int variable_;
  int inner_ = -1;
  size_t rows_;
  size_t columns_ = 1;
  size_t count_ = 1;
  size_t num_still_ = 1;    // assignments of the outer variables that `moving_` lack
  std::vector<int> outer_;  // the fastest last
  std::vector<int> scope_;
  std::vector<Placed> fixed_;   // tables without y
  std::vector<Placed> moving_;  // with it
  Placed minima_;
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

/*! \brief The sum of tables of the variables in `scope` and no others. */
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
                                     [&](const CostTable* table) { return !Holds(*table, v); });
    minima.push_back(MinimiseOut({of_v, tables.end()}, v, domain_sizes, additions));
    tables.erase(of_v, tables.end());
    tables.push_back(&minima.back());
  }
  return Sum(tables, keep, domain_sizes);
}

}  // namespace tofu
