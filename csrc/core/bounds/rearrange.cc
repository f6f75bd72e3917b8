/*!
 * \file rearrange.cc
 * \brief Loops over the rows of the sum, along the variable that changes fastest.
 */
#include "core/bounds/rearrange.h"

#include "core/base/parallel.h"

namespace tofu {
namespace {

/*! \brief The number of values of a variable, and its stride in the table. */
struct Axis {
  size_t size;
  size_t stride;  // 0 if the table lacks the variable
};

std::vector<Axis> FindAxes(const std::vector<int>& from, const std::vector<int>& scope,
                           const std::vector<size_t>& domain_sizes) {
  std::vector<Axis> axes;
  for (int v : scope) axes.push_back({domain_sizes[v], 0});
  size_t stride = 1;
  for (size_t i = from.size(); i-- > 0; stride *= domain_sizes[from[i]])
    axes[std::find(scope.begin(), scope.end(), from[i]) - scope.begin()].stride = stride;
  return axes;
}

/*! \brief Call put(entry of the table, place in the sum) for each entry of the sum. */
template <typename Put>
void ForEachEntry(const CostTable& table, const std::vector<int>& scope,
                  const std::vector<size_t>& domain_sizes, Cost* sum, const Put& put) {
  std::vector<Axis> axes = FindAxes(table.scope, scope, domain_sizes);
  const Axis columns = axes.back();
  axes.pop_back();
  size_t rows = 1;
  for (const Axis& axis : axes) rows *= axis.size;
  constexpr size_t kGrain = size_t{1} << 17;  // the fewest additions that are worth a thread
  ParallelFor(rows, kGrain / columns.size + 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const Cost* from = table.entries->data();
      size_t rest = row;
      for (auto axis = axes.rbegin(); axis != axes.rend(); rest /= (axis++)->size)
        from += rest % axis->size * axis->stride;
      Cost* to = sum + row * columns.size;
      for (size_t x = 0; x < columns.size; ++x) put(from[x * columns.stride], &to[x]);
    }
  });
}

}  // namespace

void AddRearranged(const CostTable& table, const std::vector<int>& scope,
                   const std::vector<size_t>& domain_sizes, Cost* sum) {
  ForEachEntry(table, scope, domain_sizes, sum, [](Cost entry, Cost* to) { *to += entry; });
}

void CopyRearranged(const CostTable& table, const std::vector<int>& scope,
                    const std::vector<size_t>& domain_sizes, Cost* copy) {
  ForEachEntry(table, scope, domain_sizes, copy, [](Cost entry, Cost* to) { *to = entry; });
}

}  // namespace tofu
