/*!
 * \file bucket_blocks.cc
 */
#include "core/bounds/bucket_blocks.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/byte_loops.h"
#include "core/bounds/rearrange.h"

namespace tofu {

namespace {

TOFU_VECTORISED void AddRow(const Cost* row, size_t count, Cost* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += row[i];
}

/*! \brief least[y] = min over x of [base[x] + block[x * stride + y]], at most kMaxCost, for kTile
 * columns. The minima stay in registers. */
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

/*! \brief Minimise all columns in this way. Return the least of all minima. */
TOFU_VECTORISED Cost MinimiseRows(const Cost* base, const Cost* block, size_t rows, size_t stride,
                                  size_t columns, Cost* least) {
  for (size_t begin = 0; begin < columns;) {
    size_t tile = 64;
    while (tile > columns || tile >= 2 * (columns - begin)) tile /= 2;
    // The last tile may overlap the one before it, which leaves the minima unchanged.
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

}  // namespace

BucketBlocks::BucketBlocks(const std::vector<const CostTable*>& tables, int variable,
                           const std::vector<size_t>& domain_sizes)
    : sizes_(domain_sizes), variable_(variable), rows_(domain_sizes[variable]) {
  std::map<int, int> occurrences;  // for each other variable, the number of tables that hold it
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

size_t BucketBlocks::Placed::Offset(const std::vector<size_t>& digits) const {
  return std::inner_product(digits.begin(), digits.end(), strides.begin(), size_t{0});
}

int BucketBlocks::ChooseInner(const std::map<int, int>& occurrences) const {
  int best = -1;
  for (const auto& [v, tables] : occurrences) {
    if (best < 0 || tables < occurrences.at(best) ||
        (tables == occurrences.at(best) && sizes_[v] > sizes_[best]))
      best = v;
  }
  return best;
}

void BucketBlocks::OrderOuter(const std::vector<const CostTable*>& tables) {
  const auto moves = [&](int v) {
    return std::any_of(tables.begin(), tables.end(),
                       [&](const CostTable* table) { return Moves(*table) && table->Holds(v); });
  };
  const auto still = std::stable_partition(outer_.begin(), outer_.end(), moves);
  for (auto v = still; v != outer_.end(); ++v) num_still_ *= sizes_[*v];
}

void BucketBlocks::Add(const CostTable& table) {
  std::vector<int> last = {variable_};
  if (Moves(table)) last.push_back(inner_);
  (Moves(table) ? moving_ : fixed_)
      .push_back(Place(IsWorthTransposing(table, last) ? TransposeToEnd(table, last) : table));
}

BucketBlocks::Placed BucketBlocks::Place(const CostTable& table) const {
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

bool BucketBlocks::IsWorthTransposing(const CostTable& table, const std::vector<int>& last) const {
  if (std::equal(last.rbegin(), last.rend(), table.scope.rbegin())) return false;
  const bool moves = last.size() > 1;
  const size_t reads = count_ * rows_ * (moves ? columns_ : 1);
  return table.entries->size() < reads || (moves && table.scope.back() != last.back());
}

CostTable BucketBlocks::TransposeToEnd(const CostTable& table, const std::vector<int>& last) const {
  std::vector<int> scope;
  for (int v : table.scope) {
    if (std::find(last.begin(), last.end(), v) == last.end()) scope.push_back(v);
  }
  scope.insert(scope.end(), last.begin(), last.end());
  auto turned = std::make_shared<Costs>(table.entries->size());
  CopyRearranged(table, scope, sizes_, turned->data());
  return {std::move(scope), std::move(turned)};
}

Cost BucketBlocks::Minimise(size_t begin, size_t end, Cost* minima) const {
  Costs base(rows_);
  Costs sum;  // by x and y; unused if a single table has both
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

void BucketBlocks::AddFixed(const std::vector<size_t>& digits, Costs* base) const {
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

void BucketBlocks::AddMoving(const std::vector<size_t>& digits, Costs* sum) const {
  sum->assign(rows_ * columns_, 0);
  for (const Placed& table : moving_) {
    const Cost* from = table.At(digits);
    for (size_t x = 0; x < rows_; ++x)
      AddRow(from + x * table.row_stride, columns_, sum->data() + x * columns_);
  }
}

}  // namespace tofu
