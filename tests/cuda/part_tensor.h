/*!
 * \file part_tensor.h
 * \brief A tensor of random extents, over which the kernels of lowered operators run thread by
 * thread.
 */
#ifndef TOFU_TESTS_CUDA_PART_TENSOR_H_
#define TOFU_TESTS_CUDA_PART_TENSOR_H_

#include <cmath>
#include <type_traits>
#include <vector>

#include "../core/check.h"
#include "cuda/group_loops.cuh"
#include "cuda/launch_part.h"
#include "cuda/sort_positions.cuh"
#include "emulation.h"

namespace tofu_test {

using Array = std::vector<double>;

/*! \brief A thread of a launch that sorts indices. */
inline void RunSorting(const tofu::cuda::PartLaunch& launch) {
  if (launch.name == "tofu_sort_block") tofu::cuda::SortBlocks(launch.arguments);
  if (launch.name == "tofu_sort_apart") tofu::cuda::SortApart(launch.arguments);
  if (launch.name == "tofu_find_rows") tofu::cuda::FindRows(launch.arguments);
}

/*! \brief A tensor [outer][extent][inner] and the arguments of kernels over it. */
struct Tensor {
  explicit Tensor(uint64_t seed) : random(seed) {
    arguments.outer = random.Draw(1, 5);
    arguments.extent = random.Draw(1, random.Draw(0, 1) == 0 ? 6 : 300);
    arguments.inner = random.Draw(0, 1) == 0 ? 1 : random.Draw(2, 40);
    arguments.eps = 1e-3;
    arguments.momentum = 0.75;
    arguments.temperature = 2;
  }
  int64_t size() const { return arguments.outer * arguments.extent * arguments.inner; }
  int64_t lines() const { return arguments.outer * arguments.inner; }
  int64_t cell(int64_t line, int64_t position) const {
    const int64_t outer = line / arguments.inner;
    return (outer * arguments.extent + position) * arguments.inner + line % arguments.inner;
  }
  Array Draw(int64_t size) {
    Array values(size);
    for (double& value : values) value = static_cast<double>(random.Draw(-1000, 1000)) / 500;
    return values;
  }

  /*! \brief One kernel; requests are to write, or to add. */
  template <typename Members, typename Rule>
  void Run(std::vector<Array*> inputs, std::vector<Array*> outputs,
           tofu::cuda::PartLoop loop = LoopOf<Members, Rule>()) {
    arguments.num_inputs = static_cast<int>(inputs.size());
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      arguments.tensors[i] = inputs[i] != nullptr ? inputs[i]->data() : nullptr;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      arguments.requests[i] = outputs[i] == nullptr ? tofu::cuda::kNothingAsked
                              : adds                ? tofu::cuda::kAdditionAsked
                                                    : 1;
    }
    RunLoop<Members, Rule>(loop);
  }

  /*! \brief The launches of a rule, one after the other. */
  template <typename Members, typename Rule>
  void RunLoop(tofu::cuda::PartLoop loop) {
    const tofu::cuda::PartKernel kernel = {"", "rule", loop};
    constexpr int kBytes = sizeof(double);
    Array scratch(ScratchBytesOf(kernel, arguments, kBytes) / kBytes);
    for (const auto& launch :
         LaunchesOf(kernel, arguments, kBytes, random.Draw(1, 3), scratch.data())) {
      LaunchShape shape;
      const bool is_rule = launch.name.compare(0, 4, "rule") == 0;
      // Any number of blocks does for a rule.
      shape.blocks = is_rule ? static_cast<unsigned>(random.Draw(1, 3)) : launch.blocks;
      shape.blocks_y = launch.blocks_y;
      shape.threads = tofu::cuda::kPartThreads;
      shape.threads_wait = launch.arguments.layout.waits != 0;
      RunThreads(shape, [&] {
        using tofu::cuda::Packing;
        if (!is_rule) return RunSorting(launch);
        switch (launch.arguments.layout.packing) {
          case Packing::kOfGroup:
            return RunThread<Members, Packing::kOfGroup, Rule>(launch.arguments);
          case Packing::kOfGroups:
            return RunThread<Members, Packing::kOfGroups, Rule>(launch.arguments);
          default:
            return RunThread<Members, Packing::kApart, Rule>(launch.arguments);
        }
      });
    }
  }

  /*! \brief How a rule goes over cells, unless it looks something up. */
  template <typename Members, typename Rule>
  static constexpr tofu::cuda::PartLoop LoopOf() {
    using tofu::cuda::PartLoop;
    if (std::is_same_v<Members, tofu::cuda::AtPosition>) {
      return kIsReduction<Rule> ? PartLoop::kReducePositions : PartLoop::kMapPositions;
    }
    return kIsReduction<Rule> ? PartLoop::kReduceLines : PartLoop::kMapLines;
  }

  template <typename Members, tofu::cuda::Packing kPacking, typename Rule>
  static void RunThread(const tofu::cuda::PartArguments& arguments) {
    if constexpr (kIsReduction<Rule>) {
      tofu::cuda::ReduceGroups<Members, kPacking>(arguments, Rule(arguments));
    } else {
      tofu::cuda::MapGroups<Members, kPacking>(arguments, Rule(arguments));
    }
  }

  template <typename Rule, typename = void>
  struct HasResult : std::false_type {};
  template <typename Rule>
  struct HasResult<Rule, std::void_t<typename Rule::Result>> : std::true_type {};
  template <typename Rule>
  static constexpr bool kIsReduction = HasResult<Rule>::value;

  Random random;
  tofu::cuda::PartArguments arguments = {};
  bool adds = false;
};

inline bool AreClose(const Array& a, const Array& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-11 * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

}  // namespace tofu_test

#endif  // TOFU_TESTS_CUDA_PART_TENSOR_H_
