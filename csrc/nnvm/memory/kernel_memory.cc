/*!
 * \file kernel_memory.cc
 */
#include "nnvm/memory/kernel_memory.h"

#include <vector>

#include "nnvm/execution/execution_graph.h"
#include "nnvm/graph/graph_info.h"

namespace tofu::nnvm_layer {

KernelMemory DescribeKernel(const nnvm::NodeAttrs& attrs) {
  static const auto& options = nnvm::Op::GetAttr<nnvm::FInplaceOption>("FInplaceOption");
  static const auto& identities = nnvm::Op::GetAttr<nnvm::FInplaceIdentity>("FInplaceIdentity");
  KernelMemory kernel;
  kernel.ignored = ListIgnoredInputs(attrs);
  kernel.is_sum = IsSumInPlace(attrs.op);
  if (!options.contains(attrs.op)) return kernel;
  std::vector<bool> is_identity;
  if (identities.contains(attrs.op)) is_identity = identities[attrs.op](attrs);
  for (const auto& pair : options[attrs.op](attrs)) {
    const size_t number = kernel.in_place.size();
    kernel.in_place.push_back({static_cast<uint32_t>(pair.first),
                               static_cast<uint32_t>(pair.second),
                               number < is_identity.size() && is_identity[number]});
  }
  return kernel;
}

}  // namespace tofu::nnvm_layer
