/*!
 * \file outline_memory.h
 * \brief Memory of workers, from outlines. No graph is built.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.h"
#include "nnvm/execution/execution_graph.h"

namespace tofu::nnvm_layer {

/*! \brief The numbers of an outline (core/program/outline.h). */
struct OutlineCode {
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
};

/*!
 * \brief Return, for each outline, the bytes of the buffers that its worker shares among the
 * outputs of operators (DeviceMemory::pool). `kinds` are the kinds of nodes in the outlines.
 * \throw dmlc::Error, std::invalid_argument for outlines that do not fit the training graph
 */
std::vector<int64_t> CountPoolBytes(const ExecutionGraphBuilder& builder,
                                    const std::vector<ProgramNode>& kinds,
                                    const std::vector<OutlineCode>& outlines);

}  // namespace tofu::nnvm_layer
