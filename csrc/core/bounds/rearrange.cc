/*!
 * \file rearrange.cc
 * \brief Blocks of the variables that change fastest in the sum and in the table.
 */
#include "core/bounds/rearrange.h"

#include <algorithm>

#include "core/base/byte_loops.h"
#include "core/base/parallel.h"

namespace tofu {

namespace {

/*! \brief Strides of a variable. */
struct Axis {
  size_t size = 1;
  size_t in_table = 0;  // 0 if the table lacks the variable
  size_t in_sum = 0;
};

struct Adds {
  static void Put(Cost entry, Cost* to) { *to += entry; }
};

struct Copies {
  static void Put(Cost entry, Cost* to) { *to = entry; }
};

constexpr size_t kTile = 8;

/*! \brief Transpose a square of 2^k x 2^k entries by k perfect shuffles, which compile to vector
 * instructions. */
template <typename Effect>
[[gnu::always_inline]] inline void TransposeTile(const Cost* table, size_t in_table, Cost* sum,
                                                 size_t in_sum) {
  constexpr size_t kHalf = kTile * kTile / 2;
  Cost tile[2 * kHalf];
  Cost shuffled[2 * kHalf];
  for (size_t y = 0; y < kTile; ++y) {
    for (size_t x = 0; x < kTile; ++x) tile[y * kTile + x] = table[y * in_table + x];
  }
  for (size_t side = 1; side < kTile; side *= 2) {
    for (size_t i = 0; i < kHalf; ++i) {
      shuffled[2 * i] = tile[i];
      shuffled[2 * i + 1] = tile[i + kHalf];
    }
    std::copy(shuffled, shuffled + 2 * kHalf, tile);
  }
  for (size_t x = 0; x < kTile; ++x) {
    for (size_t y = 0; y < kTile; ++y) Effect::Put(tile[x * kTile + y], &sum[x * in_sum + y]);
  }
}

/*! \brief Transpose a block whose rows are contiguous in the table and whose columns are contiguous
 * in the sum. */
template <typename Effect>
[[gnu::always_inline]] inline void TransposeBlock(const Axis& rows, const Axis& columns,
                                                  const Cost* table, Cost* sum) {
  const auto turn_singly = [&](size_t x, size_t end, size_t y) {
    for (; y < columns.size; ++y) {
      for (size_t i = x; i < end; ++i)
        Effect::Put(table[i * rows.in_table + y * columns.in_table], &sum[i * rows.in_sum + y]);
    }
  };
  const size_t of_tiles = rows.in_table == 1 ? rows.size / kTile * kTile : 0;
  for (size_t x = 0; x < of_tiles; x += kTile) {
    size_t y = 0;
    for (; y + kTile <= columns.size; y += kTile)
      TransposeTile<Effect>(table + x + y * columns.in_table, columns.in_table,
                            sum + x * rows.in_sum + y, rows.in_sum);
    turn_singly(x, x + kTile, y);
  }
  turn_singly(of_tiles, rows.size, 0);
}

template <typename Effect>
[[gnu::always_inline]] inline void PutBlock(const Axis& rows, const Axis& columns,
                                            const Cost* table, Cost* sum) {
  if (columns.in_table > 1) return TransposeBlock<Effect>(rows, columns, table, sum);
  for (size_t x = 0; x < rows.size; ++x) {
    const Cost* from = table + x * rows.in_table;
    Cost* to = sum + x * rows.in_sum;
    if (columns.in_table == 1) {
      for (size_t y = 0; y < columns.size; ++y) Effect::Put(from[y], &to[y]);
    } else {
      for (size_t y = 0; y < columns.size; ++y) Effect::Put(*from, &to[y]);
    }
  }
}

TOFU_VECTORISED void AddBlock(const Axis& rows, const Axis& columns, const Cost* table, Cost* sum) {
  PutBlock<Adds>(rows, columns, table, sum);
}

TOFU_VECTORISED void CopyBlock(const Axis& rows, const Axis& columns, const Cost* table,
                               Cost* sum) {
  PutBlock<Copies>(rows, columns, table, sum);
}

/*! \brief The variables of the sum; the last changes fastest. */
std::vector<Axis> FindAxes(const std::vector<int>& from, const std::vector<int>& scope,
                           const std::vector<size_t>& domain_sizes) {
  std::vector<Axis> axes(scope.size());
  size_t stride = 1;
  for (size_t i = scope.size(); i-- > 0; stride *= axes[i].size)
    axes[i] = {domain_sizes[scope[i]], 0, stride};
  stride = 1;
  for (size_t i = from.size(); i-- > 0; stride *= domain_sizes[from[i]])
    axes[std::find(scope.begin(), scope.end(), from[i]) - scope.begin()].in_table = stride;
  return axes;
}

/*! \brief Call put_block(rows, columns, table, sum) for all blocks. */
template <typename PutBlock>
void ForEachBlock(const CostTable& table, const std::vector<int>& scope,
                  const std::vector<size_t>& domain_sizes, Cost* sum, PutBlock put_block) {
  std::vector<Axis> axes = FindAxes(table.scope, scope, domain_sizes);
  const Axis columns = axes.back();
  axes.pop_back();
  Axis rows;
  if (!axes.empty()) {
    auto found =
        std::find_if(axes.begin(), axes.end(), [](const Axis& a) { return a.in_table == 1; });
    if (found == axes.end()) --found;
    rows = *found;
    axes.erase(found);
  }
  size_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  constexpr size_t kGrain = size_t{1} << 17;  // the fewest additions that are worth a thread
  ParallelFor(count, kGrain / (rows.size * columns.size) + 1, [&](size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) {
      size_t rest = n;
      size_t in_table = 0;
      size_t in_sum = 0;
      for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        in_table += rest % axis->size * axis->in_table;
        in_sum += rest % axis->size * axis->in_sum;
        rest /= axis->size;
      }
      put_block(rows, columns, table.entries->data() + in_table, sum + in_sum);
    }
  });
}

}  // namespace

void AddRearranged(const CostTable& table, const std::vector<int>& scope,
                   const std::vector<size_t>& domain_sizes, Cost* sum) {
  ForEachBlock(table, scope, domain_sizes, sum, AddBlock);
}

void CopyRearranged(const CostTable& table, const std::vector<int>& scope,
                    const std::vector<size_t>& domain_sizes, Cost* copy) {
  ForEachBlock(table, scope, domain_sizes, copy, CopyBlock);
}

}  // namespace tofu
