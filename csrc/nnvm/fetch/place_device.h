/*!
 * \file place_device.h
 * \brief MXNet's pass PlaceDevice, extended for partitioned graphs.
 */
#pragma once

#include "nnvm/base/mxnet_api.h"

namespace tofu::nnvm_layer {

/*! \brief The attribute with a node's group. `group2ctx` of a bind maps groups to devices. */
extern const char kGroupAttribute[];

/*! \brief An attribute that makes the attributes of all nodes of an execution graph different.
 * MXNet's executor merges nodes with equal operator, attributes and inputs, and then adds copies
 * without a worker. */
extern const char kPositionAttribute[];

/*! \brief Return true for an execution graph, and for other graphs with fetches. */
bool IsPartitioned(const nnvm::IndexedGraph& index);

/*!
 * \brief Replace the body of the pass. Graphs that are not partitioned are passed to MXNet's body.
 *
 * MXNet's pass puts a _CrossDeviceCopy on every edge between devices. A fetch reads memory of other
 * devices itself, so a partitioned graph gets no copies. Edges that do not enter a fetch must stay
 * on one device.
 */
void InstallPlaceDevice();

}  // namespace tofu::nnvm_layer
