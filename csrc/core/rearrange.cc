/*!
 * \file rearrange.cc
 * \brief Blocks of two variables: the fastest one of the sum and the fastest one of the table.
 */
#include "rearrange.h"

#include <algorithm>

#include "parallel.h"

namespace tofu {

namespace {

/*! \brief One variable: how far apart its values lie. */
struct Axis {
  size_t size = 1;
  size_t in_table = 0;  // 0 where the table lacks the variable
  size_t in_sum = 0;
};

void AddBlock(const Axis& rows, const Axis& columns, const Cost* table, Cost* sum) {
  if (columns.in_table <= 1) {
    for (size_t x = 0; x < rows.size; ++x) {
      const Cost* from = table + x * rows.in_table;
      Cost* to = sum + x * rows.in_sum;
      if (columns.in_table == 1) {
        for (size_t y = 0; y < columns.size; ++y) to[y] += from[y];
      } else {
        for (size_t y = 0; y < columns.size; ++y) to[y] += *from;
      }
    }
    return;
  }
  constexpr size_t kRows = 16;  // of a cache line
  constexpr size_t kColumns = 8;
  for (size_t row = 0; row < rows.size; row += kRows) {
    for (size_t column = 0; column < columns.size; column += kColumns) {
      for (size_t x = row; x < std::min(row + kRows, rows.size); ++x) {
        for (size_t y = column; y < std::min(column + kColumns, columns.size); ++y)
          sum[x * rows.in_sum + y] += table[x * rows.in_table + y * columns.in_table];
      }
    }
  }
}

/*! \brief The variables of the sum, the fastest last. */
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

}  // namespace

void AddRearranged(const CostTable& table, const std::vector<int>& scope,
                   const std::vector<size_t>& domain_sizes, Cost* sum) {
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
  constexpr size_t kGrain = size_t{1} << 17;  // additions that are worth a thread
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
      AddBlock(rows, columns, (*table.entries).data() + in_table, sum + in_sum);
    }
  });
}

}  // namespace tofu
