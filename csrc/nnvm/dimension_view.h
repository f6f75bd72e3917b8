/*!
 * \file dimension_view.h
 * \brief Loops over a tensor seen along one dimension: sums across and along it, and cell by cell.
 *
 * Sums are taken in double precision. Inner loops are over neighbouring cells wherever there are
 * any.
 */
#ifndef TOFU_NNVM_DIMENSION_VIEW_H_
#define TOFU_NNVM_DIMENSION_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "nnvm/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The dimension `axis`, which may count from the end, counted from the front. */
inline int PositiveAxis(const mxnet::TShape& shape, int axis) {
  const int position = axis < 0 ? axis + shape.ndim() : axis;
  CHECK(position >= 0 && position < shape.ndim())
      << "axis " << axis << " is no dimension of the shape " << shape;
  return position;
}

/*! \brief A tensor as [outer][extent of one dimension][inner]; a line is the cells along it. */
struct DimensionView {
  DimensionView(const mxnet::TShape& shape, int axis) {
    const int position = PositiveAxis(shape, axis);
    extent = shape[position];
    for (int d = 0; d < shape.ndim(); ++d) {
      if (d != position) (d < position ? outer : inner) *= shape[d];
    }
  }

  int64_t num_lines() const { return outer * inner; }

  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};

/*! \brief Writes or adds a value, as an output is asked for. */
template <typename DType, typename Value>
inline void Store(DType* out, Value value, bool add) {
  *out = static_cast<DType>(add ? static_cast<Value>(*out) + value : value);
}

/*! \brief Two sums for each position along the dimension, or for each line. */
struct SumPairs {
  explicit SumPairs(int64_t size) : first(size), second(size) {}
  std::vector<double> first;
  std::vector<double> second;
};

/*! \brief Two sums over runs of neighbours, each in several parts: an addition takes longer than
 * the processor needs to begin the next one. */
class RunSums {
 public:
  /*! \brief Adds first(i) and second(i) for every i in [begin, end). */
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

/*! \brief For each position: sums of first(position, cell) and of second(position, cell). */
template <typename First, typename Second>
SumPairs SumAcross(const DimensionView& view, const First& first, const Second& second) {
  constexpr int64_t kBlock = 16;  // positions that a thread sums at once where they are neighbours
  SumPairs sums(view.extent);
  if (view.inner == 1) {
#pragma omp parallel for
    for (int64_t begin = 0; begin < view.extent; begin += kBlock) {
      const int64_t size = std::min(kBlock, view.extent - begin);
      double a[kBlock] = {};
      double b[kBlock] = {};
      for (int64_t o = 0; o < view.outer; ++o) {
        const int64_t row = o * view.extent;
        for (int64_t p = 0; p < size; ++p) {
          a[p] += first(begin + p, row + begin + p);
          b[p] += second(begin + p, row + begin + p);
        }
      }
      std::copy(a, a + size, sums.first.begin() + begin);
      std::copy(b, b + size, sums.second.begin() + begin);
    }
    return sums;
  }
#pragma omp parallel for
  for (int64_t p = 0; p < view.extent; ++p) {
    RunSums run;
    for (int64_t o = 0; o < view.outer; ++o) {
      const int64_t begin = (o * view.extent + p) * view.inner;
      run.Add(
          begin, begin + view.inner, [&](int64_t i) { return first(p, i); },
          [&](int64_t i) { return second(p, i); });
    }
    sums.first[p] = run.first();
    sums.second[p] = run.second();
  }
  return sums;
}

/*! \brief For each line: sums of first(line, position, cell) and of second(line, position, cell).
 */
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

/*! \brief out = value(line, position, cell), for every cell. */
template <typename DType, typename Value>
void MapCells(const DimensionView& view, mxnet::OpReqType request, DType* out, const Value& value) {
  if (request == mxnet::kNullOp) return;
  const bool add = request == mxnet::kAddTo;
#pragma omp parallel for
  for (int64_t o = 0; o < view.outer; ++o) {
    if (view.inner == 1) {
      const int64_t row = o * view.extent;
      for (int64_t p = 0; p < view.extent; ++p) Store(out + row + p, value(o, p, row + p), add);
      continue;
    }
    const int64_t line = o * view.inner;
    for (int64_t p = 0; p < view.extent; ++p) {
      const int64_t begin = (o * view.extent + p) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        Store(out + begin + i, value(line + i, p, begin + i), add);
      }
    }
  }
}

/*! \brief out[n] = value(n), for every element of a small tensor. */
template <typename DType, typename Value>
void MapElements(mxnet::OpReqType request, const mxnet::TBlob& out, const Value& value) {
  if (request == mxnet::kNullOp) return;
  DType* cells = out.dptr<DType>();
  for (size_t n = 0; n < out.Size(); ++n) Store(cells + n, value(n), request == mxnet::kAddTo);
}

/*! \brief Hands out sums as they are. */
inline void StoreSums(mxnet::OpReqType request, const mxnet::TBlob& out,
                      const std::vector<double>& sums) {
  MapElements<double>(request, out, [&](size_t n) { return sums[n]; });
}

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_DIMENSION_VIEW_H_
