/*!
 * \file executor.cc
 */
#include "nnvm/execution/executor.h"

#include <mxnet/engine.h>
#include <mxnet/imperative.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nnvm/fetch/multi_fetch.h"
#include "nnvm/fetch/place_device.h"

namespace tofu::nnvm_layer {
namespace {

/*!
 * \brief Return a digest of memory, at the speed of reading it.
 *
 * Each word is mixed into one of eight lanes by invertible operations, so a change of one word is
 * always detected. Several changes are missed with probability 2^-64. This is no cryptographic
 * hash.
 */
std::uint64_t DigestBytes(const void* memory, std::size_t bytes) {
  constexpr std::size_t kLanes = 8;
  constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);
  const auto mix = [](std::uint64_t state, std::uint64_t word) {
    state = (state ^ word) * 0x9E3779B97F4A7C15U;  // odd, so the product is invertible
    return state ^ (state >> 29U);                 // mixes upper bits into lower ones
  };
  std::array<std::uint64_t, kLanes> lanes = {1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, kLanes> words = {};
  const auto* at = static_cast<const unsigned char*>(memory);
  std::size_t left = bytes;
  for (; left >= kBlock; left -= kBlock, at += kBlock) {
    std::memcpy(words.data(), at, kBlock);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  words = {};
  if (left > 0) std::memcpy(words.data(), at, left);
  std::uint64_t digest = bytes;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    digest = mix(digest, mix(lanes[lane], words[lane]));
  return digest;
}

/*! \brief The array of a handle, after all issued writes. */
const mxnet::NDArray& WaitForArray(ObjectHandle handle) {
  const mxnet::NDArray* array = ArrayOf(handle);
  array->WaitToRead();
  return *array;
}

}  // namespace

void PartialForward(ObjectHandle handle, bool is_train, int64_t begin, int64_t end) {
  CHECK(handle != 0) << "Need the handle of an executor, got a null handle";
  CHECK(begin >= 0 && (end == -1 || begin <= end))
      << "nodes [" << begin << ", " << end << ") are no part of a graph";
  if (begin == end) return;
  // MXNet's PartialForward issues one node and returns how many follow. Each call copies the shapes
  // of the whole graph, so all others are issued in one call.
  int left = 0;
  auto* executor = reinterpret_cast<mxnet::Executor*>(handle);
  executor->PartialForward(is_train, static_cast<int>(begin), &left);
  const int64_t last = end == -1 ? begin + 1 + left : std::min<int64_t>(end, begin + 1 + left);
  if (last <= begin + 1) return;
  reinterpret_cast<mxnet::exec::GraphExecutor*>(handle)->RunOps(is_train, begin + 1, last);
}

void BulkNodes(ObjectHandle handle, SymbolHandle symbol) {
  CHECK(handle != 0) << "Need the handle of an executor, got a null handle";
  if (!mxnet::Imperative::PreferBulkExecTrain()) return;
  const size_t max_nodes = mxnet::Imperative::BulkExecMaxNodeTrainFwd();
  auto* executor = reinterpret_cast<mxnet::exec::GraphExecutor*>(handle);
  const nnvm::Graph graph = GraphOf(symbol);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  const auto is_fetch = [&](uint32_t id) { return index[id].source->op() == MultiFetchOp(); };
  const auto group = [&](uint32_t id) { return index[id].source->attrs.dict.at(kGroupAttribute); };
  for (uint32_t begin = 0, end = 0; begin < index.num_nodes(); begin = end) {
    end = begin + 1;
    if (is_fetch(begin)) continue;
    while (end < index.num_nodes() && !is_fetch(end) && group(end) == group(begin)) ++end;
    if (end > begin + 1) executor->BulkOpSegs(begin, end, max_nodes);
  }
}

int64_t FindBoundary(SymbolHandle symbol, int64_t num_outputs) {
  const nnvm::Graph graph = GraphOf(symbol);
  const nnvm::IndexedGraph& index = graph.indexed_graph();
  CHECK(num_outputs >= 0 && num_outputs <= static_cast<int64_t>(index.outputs().size()))
      << "the symbol has " << index.outputs().size() << " outputs, not " << num_outputs;
  nnvm::Symbol first;
  first.outputs.assign(graph.outputs.begin(), graph.outputs.begin() + num_outputs);
  int64_t boundary = 0;
  nnvm::DFSVisit(first.outputs, [&](const nnvm::ObjectPtr& node) {
    boundary = std::max<int64_t>(boundary, index.node_id(node.get()) + 1);
  });
  return boundary;
}

void OrderAfter(const std::vector<ObjectHandle>& written,
                const std::vector<ObjectHandle>& results) {
  const auto variables = [](const std::vector<ObjectHandle>& handles) {
    std::vector<mxnet::Engine::VarHandle> found;
    for (ObjectHandle handle : handles) found.push_back(ArrayOf(handle)->var());
    return found;
  };
  std::vector<mxnet::Engine::VarHandle> reads = variables(results);
  std::vector<mxnet::Engine::VarHandle> writes = variables(written);
  mxnet::Engine* engine = mxnet::Engine::Get();
  engine->DeduplicateVarHandle(&reads, &writes);
  engine->PushSync([](mxnet::RunContext) {}, mxnet::Context::CPU(), reads, writes,
                   mxnet::FnProperty::kNormal, 0, "TofuOrderAfter");
}

StorageInfo DescribeStorage(ObjectHandle handle) {
  const mxnet::Storage::Handle storage = WaitForArray(handle).storage_handle();
  return StorageInfo{static_cast<int>(storage.ctx.dev_type), storage.ctx.dev_id,
                     reinterpret_cast<std::uintptr_t>(storage.dptr),
                     static_cast<int64_t>(storage.size)};
}

int64_t CountWrites(ObjectHandle handle) {
  return static_cast<int64_t>(WaitForArray(handle).version());
}

std::uint64_t DigestArray(ObjectHandle handle) {
  const mxnet::NDArray& array = WaitForArray(handle);
  if (array.ctx().dev_mask() != mshadow::cpu::kDevMask) return 0;
  // A plain executor over the same array may have converted it to oneDNN's layout.
  const mxnet::NDArray plain = array.IsMKLDNNData() ? array.Reorder2Default() : array;
  const mxnet::TBlob& blob = plain.data();
  return DigestBytes(blob.dptr_, blob.Size() * mshadow::mshadow_sizeof(blob.type_flag_));
}

}  // namespace tofu::nnvm_layer
