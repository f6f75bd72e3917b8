/*!
 * \file pack_memory.h
 * \brief MXNet's pass MXPlanMemory, with better packing for partitioned graphs.
 */
#pragma once

namespace tofu::nnvm_layer {

/*!
 * \brief Replace the body of the pass: PlanBuffers (buffer_plan.h) plans partitioned graphs. All
 * other graphs keep the plan of MXNet's body.
 */
void InstallPackMemory();

}  // namespace tofu::nnvm_layer
