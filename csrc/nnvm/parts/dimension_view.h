/*!
 * \file dimension_view.h
 * \brief Loops over a tensor along one dimension: sums across and along it, and element-wise maps.
 *
 * Sums are in double precision. Inner loops are over contiguous elements if possible.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/base/byte_loops.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief Count an axis, which may be negative, from the front. */
inline int PositiveAxis(const mxnet::TShape& shape, int axis) {
  const int position = axis < 0 ? axis + shape.ndim() : axis;
  CHECK(position >= 0 && position < shape.ndim())
      << "axis " << axis << " is no dimension of the shape " << shape;
  return position;
}

/*!
 * \brief A tensor as [outer][extent of one dimension][inner]. A line is the elements along that
 * dimension.
 *
 * In memory it is [outer][extent / block][inner][block]. In MXNet's plain layout, `block` is 1.
 */
struct DimensionView {
  DimensionView(const mxnet::TShape& shape, int axis, int64_t block = 1) : block(block) {
    const int position = PositiveAxis(shape, axis);
    extent = shape[position];
    for (int d = 0; d < shape.ndim(); ++d) {
      if (d != position) (d < position ? outer : inner) *= shape[d];
    }
  }

  int64_t num_lines() const { return outer * inner; }

  /*! \brief The number of positions that are adjacent in memory. */
  int64_t neighbours() const { return inner == 1 ? extent : block; }

  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  int64_t block;
};

/*! \brief Write or add a value. */
template <typename DType, typename Value>
inline void Store(DType* out, Value value, bool add) {
  *out = static_cast<DType>(add ? static_cast<Value>(*out) + value : value);
}

/*! \brief Two sums for each position or each line. */
struct SumPairs {
  explicit SumPairs(int64_t size) : first(size), second(size) {}
  std::vector<double> first;
  std::vector<double> second;
};

/*! \brief Two sums over runs of neighbours, each in several parts to hide the latency of additions.
 */
class RunSums {
 public:
  /*! \brief Add first(i) and second(i) for every i in [begin, end). */
  template <typename First, typename Second>
  void Add(int64_t begin, int64_t end, const First& first, const Second& second) {
    for (; begin + kParts <= end; begin += kParts) {
      for (int64_t part = 0; part < kParts; ++part) {
        first_[part] += first(begin + part);
        second_[part] += second(begin + part);
      }
    }
    for (; begin < end; ++begin) {
      first_[0] += first(begin);
      second_[0] += second(begin);
    }
  }
  double first() const { return std::accumulate(first_, first_ + kParts, 0.0); }
  double second() const { return std::accumulate(second_, second_ + kParts, 0.0); }

 private:
  static constexpr int64_t kParts = 16;
  double first_[kParts] = {};
  double second_[kParts] = {};
};

/*! \brief Stands for an unused second sum. */
struct Nothing {
  template <typename... Arguments>
  double operator()(Arguments...) const {
    return 0;
  }
};
constexpr Nothing kNothing;

/*! \brief Sum one position, whose elements are contiguous runs. */
template <typename First, typename Second>
TOFU_VECTORISED void SumPosition(const DimensionView& view, int64_t position, const First& first,
                                 const Second& second, SumPairs* sums) {
  constexpr int64_t kParts = 16;  // hides the latency of additions
  double a[kParts] = {};
  double b[kParts] = {};
  for (int64_t o = 0; o < view.outer; ++o) {
    int64_t cell = (o * view.extent + position) * view.inner;
    const int64_t end = cell + view.inner;
    for (; cell + kParts <= end; cell += kParts) {
      for (int64_t p = 0; p < kParts; ++p) a[p] += first(position, cell + p);
      if constexpr (!std::is_same<Second, Nothing>::value) {
        for (int64_t p = 0; p < kParts; ++p) b[p] += second(position, cell + p);
      }
    }
    for (; cell < end; ++cell) {
      a[0] += first(position, cell);
      b[0] += second(position, cell);
    }
  }
  sums->first[position] = std::accumulate(a, a + kParts, 0.0);
  sums->second[position] = std::accumulate(b, b + kParts, 0.0);
}

/*! \brief Sum kSize adjacent positions. */
template <int64_t kSize, typename First, typename Second>
TOFU_VECTORISED void SumNeighbours(const DimensionView& view, int64_t position, const First& first,
                                   const Second& second, SumPairs* sums) {
  const int64_t stride = view.neighbours();
  const int64_t at = position / stride * view.inner * stride + position % stride;
  double a[kSize] = {};
  double b[kSize] = {};
  for (int64_t o = 0; o < view.outer; ++o) {
    int64_t cell = o * view.extent * view.inner + at;
    for (int64_t i = 0; i < view.inner; ++i, cell += stride) {
      for (int64_t p = 0; p < kSize; ++p) a[p] += first(position + p, cell + p);
      if constexpr (!std::is_same<Second, Nothing>::value) {
        for (int64_t p = 0; p < kSize; ++p) b[p] += second(position + p, cell + p);
      }
    }
  }
  std::copy(a, a + kSize, sums->first.begin() + position);
  std::copy(b, b + kSize, sums->second.begin() + position);
}

/*! \brief By position: sums of first(position, cell) and of second(position, cell). */
template <typename First, typename Second>
SumPairs SumAcross(const DimensionView& view, const First& first, const Second& second) {
  SumPairs sums(view.extent);
  if (view.neighbours() == 1) {
#pragma omp parallel for
    for (int64_t p = 0; p < view.extent; ++p) SumPosition(view, p, first, second, &sums);
    return sums;
  }
  const int64_t step = std::min<int64_t>(view.neighbours(), 16);
#pragma omp parallel for
  for (int64_t begin = 0; begin < view.extent; begin += step) {
    const int64_t size = std::min(step, view.extent - begin);
    if (size == 16) {
      SumNeighbours<16>(view, begin, first, second, &sums);
    } else if (size == 8) {
      SumNeighbours<8>(view, begin, first, second, &sums);
    } else {
      for (int64_t p = 0; p < size; ++p) SumNeighbours<1>(view, begin + p, first, second, &sums);
    }
  }
  return sums;
}

/*! \brief By line: sums of first(line, position, cell) and of second(line, position, cell). */
template <typename First, typename Second>
SumPairs SumAlong(const DimensionView& view, const First& first, const Second& second) {
  SumPairs sums(view.num_lines());
#pragma omp parallel for
  for (int64_t o = 0; o < view.outer; ++o) {
    if (view.inner == 1) {
      const int64_t row = o * view.extent;
      RunSums run;
      run.Add(
          0, view.extent, [&](int64_t p) { return first(o, p, row + p); },
          [&](int64_t p) { return second(o, p, row + p); });
      sums.first[o] = run.first();
      sums.second[o] = run.second();
      continue;
    }
    const int64_t line = o * view.inner;
    for (int64_t p = 0; p < view.extent; ++p) {
      const int64_t begin = (o * view.extent + p) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        sums.first[line + i] += first(line + i, p, begin + i);
        sums.second[line + i] += second(line + i, p, begin + i);
      }
    }
  }
  return sums;
}

/*! \brief Set out = value(line, position, cell) for one outer index. `out` may be one of the inputs
 * of `value`, read at the same cell. */
template <typename DType, typename Value>
TOFU_VECTORISED void MapOuter(const DimensionView& view, int64_t o, bool add, DType* out,
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

/*! \brief Set out = value(line, position, cell) for every element. */
template <typename DType, typename Value>
void MapCells(const DimensionView& view, mxnet::OpReqType request, DType* out, const Value& value) {
  if (request == mxnet::kNullOp) return;
  const bool add = request == mxnet::kAddTo;
#pragma omp parallel for
  for (int64_t o = 0; o < view.outer; ++o) MapOuter(view, o, add, out, value);
}

/*! \brief Set out[n] = value(n) for every element of a small tensor. */
template <typename DType, typename Value>
void MapElements(mxnet::OpReqType request, const mxnet::TBlob& out, const Value& value) {
  if (request == mxnet::kNullOp) return;
  DType* cells = out.dptr<DType>();
  for (size_t n = 0; n < out.Size(); ++n) Store(cells + n, value(n), request == mxnet::kAddTo);
}

}  // namespace tofu::nnvm_layer
