/*!
 * \file layout_flow.h
 * \brief Choice of the convolutions whose outputs may have oneDNN's layout, blocks of channels.
 */
#pragma once

#include <vector>

#include "core/program/program.h"
#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*!
 * \brief Let convolutions return their first outputs in blocks of channels if only operators that
 * accept blocks read them.
 *
 * Most operators that accept blocks pass on the layout of their inputs: all of their data are in
 * blocks, or none. Data must be plain if it comes from a fetch or a variable, or if a fetch, an
 * operator without blocks or the caller reads it. Starting from such data, operators with mixed
 * inputs become plain until nothing changes. This avoids hidden copies.
 * \param nodes of the program, by position
 */
void ChooseBlockedOutputs(const Program& program, const std::vector<nnvm::ObjectPtr>& nodes);

}  // namespace tofu::nnvm_layer
