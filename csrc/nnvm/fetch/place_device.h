/*!
 * \file place_device.h
 * \brief MXNet's pass PlaceDevice, extended for graphs with fetches.
 */
#ifndef TOFU_NNVM_FETCH_PLACE_DEVICE_H_
#define TOFU_NNVM_FETCH_PLACE_DEVICE_H_

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The attribute with a node's group. `group2ctx` of a bind maps groups to devices. */
extern const char kGroupAttribute[];

/*! \brief Return true if a graph has fetches, so is partitioned. */
bool HoldsFetch(const nnvm::IndexedGraph& index);

/*!
 * \brief Replace the body of the pass. Graphs without fetches are passed to MXNet's body.
 *
 * MXNet's pass puts a _CrossDeviceCopy on every edge between devices. A fetch reads memory of other
 * devices itself, so a graph with fetches gets no copies. Edges that do not enter a fetch must stay
 * on one device.
 */
void InstallPlaceDevice();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_PLACE_DEVICE_H_
