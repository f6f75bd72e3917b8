/*!
 * \file fetch_info.h
 * \brief The fetches of a graph, read back from its nodes: the base of the independent byte count.
 */
#ifndef TOFU_NNVM_FETCH_INFO_H_
#define TOFU_NNVM_FETCH_INFO_H_

#include <string>
#include <vector>

#include "nnvm/inference.h"
#include "nnvm/multi_fetch.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief An input of a fetch: which output of which node, where that node runs, and its shape
 * there. */
struct FetchInput {
  std::string producer;
  uint32_t output = 0;
  std::string group;
  MaybeShape shape;
};

struct FetchInfo {
  std::string name;
  std::string group;
  int dtype = -1;
  MultiFetchParam param;
  std::vector<FetchInput> inputs;
};

/*! \brief All fetches, in topological order. Variables have to carry their shapes and types. */
std::vector<FetchInfo> ListFetches(SymbolHandle symbol);

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_INFO_H_
