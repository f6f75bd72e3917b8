/*!
 * \file multi_fetch_kernel.cc
 * \brief A fetch is a list of pieces, and a piece is a list of contiguous runs. A run is copied or
 * combined at once.
 */
#include "nnvm/fetch/multi_fetch_kernel.h"

#include <dmlc/parameter.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "cuda/multi_fetch.cuh"
#include "nnvm/fetch/piece_runs.h"
#include "nnvm/fetch/stream_copy.h"

namespace tofu::nnvm_layer {
namespace {

using mxnet::TBlob;

// Below this size, several threads take longer than one.
constexpr int64_t kParallelBytes = 1 << 18;
// Number of elements that are combined at once, in registers.
constexpr int64_t kBlock = 16;
// From this size, a region and its sources exceed the caches. Readers would find the region in
// memory, so it is written there.
constexpr size_t kStreamedBytes = 16 << 20;

/*! \brief How results reach the output. */
enum class Store { kWrite, kStream, kAdd };

std::atomic<int64_t> g_bytes_read_remote{0};
std::atomic<int64_t> g_bytes_read_local{0};
std::atomic<int64_t> g_launches{0};

/*! \brief The type in which elements are summed: float for the 16-bit types. */
template <typename DType>
using SumType = std::conditional_t<sizeof(DType) == 2, float, DType>;

using cuda::TakeMaximum;
using cuda::TakeMinimum;
using cuda::TakeProduct;
using cuda::TakeSum;

/*! \brief Combine the sources over kSize elements from `begin`, and write or add them to
 * `destination`. */
template <int64_t kSize, typename Combine, typename DType>
void CombineBlock(const std::vector<const DType*>& sources, int64_t begin, Store store,
                  DType* destination) {
  using Sum = SumType<DType>;
  Sum sums[kSize];
  for (int64_t i = 0; i < kSize; ++i) sums[i] = static_cast<Sum>(sources[0][begin + i]);
  for (size_t s = 1; s < sources.size(); ++s) {
    const DType* source = sources[s] + begin;
    for (int64_t i = 0; i < kSize; ++i) sums[i] = Combine()(sums[i], static_cast<Sum>(source[i]));
  }
  DType* out = destination + begin;
  if (store == Store::kAdd) {
    for (int64_t i = 0; i < kSize; ++i) {
      out[i] = static_cast<DType>(static_cast<Sum>(out[i]) + sums[i]);
    }
  } else {
    for (int64_t i = 0; i < kSize; ++i) out[i] = static_cast<DType>(sums[i]);
  }
}

template <typename Combine, typename DType>
void ComputeRun(const std::vector<const DType*>& sources, int64_t begin, int64_t end, Store store,
                DType* destination) {
  if (store != Store::kAdd && sources.size() == 1) {
    // Copied as bytes, since the 16-bit types are not trivial.
    void* out = destination + begin;
    const size_t bytes = (end - begin) * sizeof(DType);
    if (store == Store::kStream) {
      StreamCopy(out, sources[0] + begin, bytes);
    } else {
      std::memcpy(out, sources[0] + begin, bytes);
    }
    return;
  }
  for (; begin + kBlock <= end; begin += kBlock) {
    CombineBlock<kBlock, Combine>(sources, begin, store, destination);
  }
  for (; begin < end; ++begin) CombineBlock<1, Combine>(sources, begin, store, destination);
}

/*! \brief Compute the elements [begin, end) of a piece on one thread. */
template <typename Combine, typename DType>
void ComputeCells(const PieceRuns& runs, const std::vector<const DType*>& inputs, int64_t begin,
                  int64_t end, Store store, DType* output) {
  std::vector<const DType*> sources(inputs.size());
  PieceRuns::Iterator run(runs, begin / runs.run_length());
  int64_t run_begin = begin % runs.run_length();  // in the first run; others start at 0
  for (int64_t at = begin; at < end; run.Next()) {
    const int64_t run_end = std::min(runs.run_length(), run_begin + end - at);
    for (size_t s = 0; s < sources.size(); ++s) sources[s] = inputs[s] + run.source_offset(s);
    ComputeRun<Combine>(sources, run_begin, run_end, store, output + run.output_offset());
    at += run_end - run_begin;
    run_begin = 0;
  }
  if (store == Store::kStream) FinishStreams();
}

template <typename Combine, typename DType>
void ComputePiece(const Piece& piece, const std::vector<TBlob>& inputs,
                  const mxnet::TShape& output_shape, Store store, DType* output) {
  std::vector<const DType*> data;
  for (const Source& source : piece.sources) data.push_back(inputs[source.input].dptr<DType>());
  const auto shape_of = [&](int64_t input) -> const mxnet::TShape& { return inputs[input].shape_; };
  const PieceRuns runs(MakeStridedPiece(piece, output_shape, shape_of, 1));
  const int64_t cells = runs.num_cells();
  if (cells == 0) return;
  const int64_t bytes = cells * static_cast<int64_t>(sizeof(DType) * data.size());
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(bytes / kParallelBytes, 64));
#pragma omp parallel for if (parts > 1)
  for (int64_t part = 0; part < parts; ++part) {
    ComputeCells<Combine>(runs, data, cells * part / parts, cells * (part + 1) / parts, store,
                          output);
  }
}

bool CoversRegion(const MultiFetchParam& param) {
  int64_t cells = 0;
  for (const Piece& piece : param.pieces) cells += Volume(piece.box);
  return cells == static_cast<int64_t>(param.shape.Size());
}

/*! \brief Return true if an input shares memory with the output, as after in-place requests. */
bool Overlaps(const std::vector<TBlob>& inputs, const TBlob& output, size_t element_bytes) {
  const auto begin_of = [](const TBlob& blob) { return static_cast<const char*>(blob.dptr_); };
  const char* out_begin = begin_of(output);
  const char* out_end = out_begin + output.Size() * element_bytes;
  return std::any_of(inputs.begin(), inputs.end(), [&](const TBlob& input) {
    return begin_of(input) < out_end && out_begin < begin_of(input) + input.Size() * element_bytes;
  });
}

template <typename DType>
void ComputePieces(const MultiFetchParam& param, const std::vector<TBlob>& inputs, Store store,
                   DType* output) {
  for (const Piece& piece : param.pieces) {
    switch (param.reducer) {
      case Reducer::kSum:
        ComputePiece<TakeSum>(piece, inputs, param.shape, store, output);
        break;
      case Reducer::kMaximum:
        ComputePiece<TakeMaximum>(piece, inputs, param.shape, store, output);
        break;
      case Reducer::kMinimum:
        ComputePiece<TakeMinimum>(piece, inputs, param.shape, store, output);
        break;
      case Reducer::kProduct:
        ComputePiece<TakeProduct>(piece, inputs, param.shape, store, output);
        break;
    }
  }
}

template <typename DType>
void WriteRegion(const MultiFetchParam& param, const std::vector<TBlob>& inputs, DType* output) {
  if (!CoversRegion(param)) std::fill_n(output, param.shape.Size(), static_cast<DType>(param.fill));
  const bool is_large = param.shape.Size() * sizeof(DType) >= kStreamedBytes;
  ComputePieces(param, inputs, is_large ? Store::kStream : Store::kWrite, output);
}

template <typename DType>
void ComputeTyped(const MultiFetchParam& param, const std::vector<TBlob>& inputs, bool add,
                  const TBlob& output) {
  DType* out = output.dptr<DType>();
  const bool adds_fill = add && param.fill != 0 && !CoversRegion(param);
  if (Overlaps(inputs, output, sizeof(DType)) || adds_fill) {
    const std::unique_ptr<DType[]> region(new DType[param.shape.Size()]);
    WriteRegion(param, inputs, region.get());
    ComputeRun<TakeSum, DType>({region.get()}, 0, param.shape.Size(),
                               add ? Store::kAdd : Store::kWrite, out);
  } else if (add) {
    ComputePieces(param, inputs, Store::kAdd, out);
  } else {
    WriteRegion(param, inputs, out);
  }
}

}  // namespace

bool SkipsFetches() {
  static const bool skips = dmlc::GetEnv("TOFU_SKIP_FETCH", false);
  return skips;
}

FetchCounters ReadFetchCounters() {
  return FetchCounters{g_bytes_read_remote, g_bytes_read_local, g_launches};
}

void ResetFetchCounters() {
  g_bytes_read_remote = 0;
  g_bytes_read_local = 0;
  g_launches = 0;
}

void CountFetch(const MultiFetchParam& param, const std::vector<TBlob>& inputs,
                const TBlob& output) {
  int64_t remote = 0;
  int64_t local = 0;
  const int64_t element_bytes = mshadow::mshadow_sizeof(output.type_flag_);
  for (const Piece& piece : param.pieces) {
    const int64_t bytes = Volume(piece.box) * element_bytes;
    for (const Source& source : piece.sources) {
      (inputs[source.input].dev_id() == output.dev_id() ? local : remote) += bytes;
    }
  }
  g_bytes_read_remote += remote;
  g_bytes_read_local += local;
  ++g_launches;
}

void ComputeMultiFetch(const nnvm::NodeAttrs& attrs, const mxnet::OpContext&,
                       const std::vector<TBlob>& inputs,
                       const std::vector<mxnet::OpReqType>& requests,
                       const std::vector<TBlob>& outputs) {
  if (requests[0] == mxnet::kNullOp || SkipsFetches()) return;
  const MultiFetchParam& param = MultiFetchParamOf(attrs);
  const bool add = requests[0] == mxnet::kAddTo;
  CountFetch(param, inputs, outputs[0]);
  MSHADOW_TYPE_SWITCH_WITH_BOOL(outputs[0].type_flag_, DType,
                                { ComputeTyped<DType>(param, inputs, add, outputs[0]); });
}

}  // namespace tofu::nnvm_layer
