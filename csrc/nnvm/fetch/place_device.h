/*!
 * \file place_device.h
 * \brief MXNet's pass PlaceDevice, extended by graphs that hold fetches.
 */
#ifndef TOFU_NNVM_FETCH_PLACE_DEVICE_H_
#define TOFU_NNVM_FETCH_PLACE_DEVICE_H_

#include "nnvm/base/mxnet_api.h"

namespace tofu {
namespace nnvm_layer {

/*! \brief The attribute that names a node's group; `group2ctx` of a bind says which device a group
 * is. */
extern const char kGroupAttribute[];

/*! \brief Whether a graph is partitioned. */
bool HoldsFetch(const nnvm::IndexedGraph& index);

/*!
 * \brief Replace the body of the registered pass. Graphs without fetches go on to MXNet's own body.
 *
 * MXNet's pass puts a _CrossDeviceCopy on every edge between devices. A fetch reads other devices'
 * memory itself, so a graph that holds one gets no copies; every other edge must stay on its
 * device.
 */
void InstallPlaceDevice();

}  // namespace nnvm_layer
}  // namespace tofu

#endif  // TOFU_NNVM_FETCH_PLACE_DEVICE_H_
