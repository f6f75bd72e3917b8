/*!
 * \file part_loops.h
 * \brief Loops over a tensor on CPUs, group by group, by the rules of the GPU kernels (csrc/cuda).
 *
 * A group is all elements at one position of a dimension (AtPosition), or a line along it (OnLine).
 * Sums are computed in several parts, which hides the latency of additions. Inner loops are over
 * contiguous elements if possible.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/base/byte_loops.h"
#include "cuda/group_loops.cuh"
#include "nnvm/parts/dimension_view.h"
#include "nnvm/parts/lowered_operator.h"

namespace tofu::nnvm_layer {

using cuda::AtPosition;
using cuda::OnLine;
using cuda::Place;

/*! \brief Write or add a value. */
template <typename T, typename Value>
inline void Store(T* out, Value value, bool add) {
  *out = static_cast<T>(add ? static_cast<Value>(*out) + value : value);
}

/*! \brief A rule, with the tensors and groups that it reads. */
template <typename T, typename Rule, typename Members>
class PreparedRule {
 public:
  PreparedRule(const PartArguments& arguments, const DimensionView& view)
      : rule{arguments}, view_(view) {
    for (int s = 0; s < Rule::kStreams; ++s) streams_[s] = arguments.Input<T>(s);
    const int64_t count = kIsLine ? view.num_lines() : view.extent;
    groups.reserve(count);
    for (int64_t group = 0; group < count; ++group) groups.push_back(rule.Prepare(group));
  }

  /*! \brief Compute an element by its line, its position, and its place in memory. */
  auto At(int64_t line, int64_t position, int64_t cell) const {
    T cells[kNumStreams];
    for (int s = 0; s < Rule::kStreams; ++s) cells[s] = streams_[s][cell];
    const Place place{cell, kIsLine ? position : line, line / view_.inner};
    return rule.Cell(groups[kIsLine ? line : position], place, cells);
  }

  const Rule rule;
  std::vector<typename Rule::Group> groups;

 private:
  static constexpr bool kIsLine = std::is_same<Members, OnLine>::value;
  static constexpr int kNumStreams = Rule::kStreams > 0 ? Rule::kStreams : 1;

  const DimensionView view_;
  const T* streams_[kNumStreams];
};

/*! \brief Set out = value(line, position, cell) for one outer index. `out` may be one of the inputs
 * of `value`, read at the same cell. */
template <typename T, typename Value>
TOFU_VECTORISED void MapOuter(const DimensionView& view, int64_t o, bool add, T* out,
                              const Value& value) {
  const int64_t line = o * view.inner;
  const int64_t block = view.neighbours();
  for (int64_t p = 0; p < view.extent; p += block) {
    const int64_t begin = (o * view.extent + p) * view.inner;
    if (block == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < view.inner; ++i) {
        Store(out + begin + i, value(line + i, p, begin + i), add);
      }
      continue;
    }
    for (int64_t i = 0; i < view.inner; ++i) {
      const int64_t cell = begin + i * block;
#pragma GCC ivdep
      for (int64_t b = 0; b < block; ++b) {
        Store(out + cell + b, value(line + i, p + b, cell + b), add);
      }
    }
  }
}

/*! \brief Write rule.Cell to each element of the first output, then rule.Finish for each group. */
template <typename T, typename Rule, typename Members>
void MapGroups(const PartArguments& arguments, const DimensionView& view) {
  const PreparedRule<T, Rule, Members> prepared(arguments, view);
  const bool add = arguments.requests[0] == cuda::kAdditionRequested;
  const auto value = [&](int64_t line, int64_t p, int64_t cell) {
    return prepared.At(line, p, cell);
  };
  if (arguments.requests[0] != cuda::kNothingRequested) {
#pragma omp parallel for
    for (int64_t o = 0; o < view.outer; ++o) {
      MapOuter(view, o, add, arguments.Output<T>(0), value);
    }
  }
  for (size_t group = 0; group < prepared.groups.size(); ++group)
    prepared.rule.Finish(prepared.groups[group], group);
}

/*! \brief Merge the elements at(run, i) of contiguous runs. */
template <typename Rule, typename At>
TOFU_VECTORISED typename Rule::Result ReduceRuns(const Rule& rule, int64_t runs, int64_t length,
                                                 const At& at) {
  constexpr int64_t kParts = 16;
  typename Rule::Result parts[kParts];
  typename Rule::Result result = rule.Nothing();
  std::fill_n(parts, kParts, result);
  for (int64_t run = 0; run < runs; ++run) {
    int64_t i = 0;
    for (; i + kParts <= length; i += kParts) {
      for (int64_t part = 0; part < kParts; ++part) parts[part].Merge(at(run, i + part));
    }
    for (; i < length; ++i) result.Merge(at(run, i));
  }
  for (const auto& part : parts) result.Merge(part);
  return result;
}

/*! \brief Reduce kSize positions that are adjacent in memory. */
template <int64_t kSize, typename Prepared, typename Result>
TOFU_VECTORISED void ReduceNeighbours(const Prepared& prepared, const DimensionView& view,
                                      int64_t position, Result* results) {
  const int64_t stride = view.neighbours();
  const int64_t at = position / stride * view.inner * stride + position % stride;
  Result parts[kSize];
  std::copy_n(results + position, kSize, parts);
  for (int64_t o = 0; o < view.outer; ++o) {
    int64_t cell = o * view.extent * view.inner + at;
    for (int64_t i = 0; i < view.inner; ++i, cell += stride) {
      for (int64_t p = 0; p < kSize; ++p)
        parts[p].Merge(prepared.At(o * view.inner + i, position + p, cell + p));
    }
  }
  std::copy_n(parts, kSize, results + position);
}

template <typename Prepared, typename Result>
void ReducePositions(const Prepared& prepared, const DimensionView& view, Result* results) {
  if (view.neighbours() == 1) {
#pragma omp parallel for
    for (int64_t p = 0; p < view.extent; ++p) {
      results[p] = ReduceRuns(prepared.rule, view.outer, view.inner, [&](int64_t o, int64_t i) {
        return prepared.At(o * view.inner + i, p, (o * view.extent + p) * view.inner + i);
      });
    }
    return;
  }
  const int64_t step = std::min<int64_t>(view.neighbours(), 16);
#pragma omp parallel for
  for (int64_t begin = 0; begin < view.extent; begin += step) {
    const int64_t size = std::min(step, view.extent - begin);
    if (size == 16) {
      ReduceNeighbours<16>(prepared, view, begin, results);
    } else if (size == 8) {
      ReduceNeighbours<8>(prepared, view, begin, results);
    } else {
      for (int64_t p = 0; p < size; ++p) ReduceNeighbours<1>(prepared, view, begin + p, results);
    }
  }
}

template <typename Prepared, typename Result>
void ReduceLines(const Prepared& prepared, const DimensionView& view, Result* results) {
#pragma omp parallel for
  for (int64_t o = 0; o < view.outer; ++o) {
    const int64_t row = o * view.extent;
    if (view.inner == 1) {
      results[o] = ReduceRuns(prepared.rule, 1, view.extent,
                              [&](int64_t, int64_t p) { return prepared.At(o, p, row + p); });
      continue;
    }
    const int64_t line = o * view.inner;
    for (int64_t p = 0; p < view.extent; ++p) {
      const int64_t begin = (row + p) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i)
        results[line + i].Merge(prepared.At(line + i, p, begin + i));
    }
  }
}

/*! \brief Merge rule.Cell of all elements of each group, and pass it to rule.Store. */
template <typename T, typename Rule, typename Members>
void ReduceGroups(const PartArguments& arguments, const DimensionView& view) {
  const PreparedRule<T, Rule, Members> prepared(arguments, view);
  std::vector<typename Rule::Result> results(prepared.groups.size(), prepared.rule.Nothing());
  if constexpr (std::is_same<Members, OnLine>::value) {
    ReduceLines(prepared, view, results.data());
  } else {
    ReducePositions(prepared, view, results.data());
  }
  for (size_t group = 0; group < results.size(); ++group)
    prepared.rule.Store(group, results[group]);
}

/*! \brief Call action(element) with an element of a type. */
template <typename Action>
void WithElement(int type, const Action& action) {
  if (type == mshadow::kFloat64) return action(double());
  return type == mshadow::kFloat32 ? action(float()) : action(cuda::Half());
}

template <template <typename> class Rule, typename Members>
void RunMap(const PartArguments& arguments, const DimensionView& view, int type) {
  WithElement(type, [&](auto element) {
    using T = decltype(element);
    MapGroups<T, Rule<T>, Members>(arguments, view);
  });
}

template <template <typename> class Rule, typename Members>
void RunReduce(const PartArguments& arguments, const DimensionView& view, int type) {
  WithElement(type, [&](auto element) {
    using T = decltype(element);
    ReduceGroups<T, Rule<T>, Members>(arguments, view);
  });
}

template <template <typename> class Rule>
void RunReduceAll(const PartArguments& arguments, const DimensionView& view, int type) {
  DimensionView line = view;
  line.extent *= view.num_lines();
  line.outer = line.inner = 1;
  RunReduce<Rule, OnLine>(arguments, line, type);
}

/*! \brief Write each element by a rule. */
template <template <typename> class Rule, typename Members>
constexpr PartMethod kMap = {RunMap<Rule, Members>, std::is_same<Members, OnLine>::value
                                                        ? PartLoop::kMapLines
                                                        : PartLoop::kMapPositions};

/*! \brief Reduce each group by a rule. */
template <template <typename> class Rule, typename Members>
constexpr PartMethod kReduce = {RunReduce<Rule, Members>, std::is_same<Members, OnLine>::value
                                                              ? PartLoop::kReduceLines
                                                              : PartLoop::kReducePositions};

/*! \brief Reduce all elements as one line. */
template <template <typename> class Rule>
constexpr PartMethod kReduceAll = {RunReduceAll<Rule>, PartLoop::kReduceAll};

}  // namespace tofu::nnvm_layer
