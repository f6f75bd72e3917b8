/*!
 * \file device_fetch.h
 * \brief A fetch on a GPU: its records in the GPU's memory, and its launches.
 */
#ifndef TOFU_CUDA_DEVICE_FETCH_H_
#define TOFU_CUDA_DEVICE_FETCH_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/prepare_fetch.h"

namespace tofu {
namespace cuda {

/*! \brief Whether TOFU_STAGE_FETCHES=1 has all that is read copied first: no GPU reads another's
 * memory then. */
bool StagesAll();

/*! \brief The arrays of one launch. */
struct FetchCall {
  void* output = nullptr;
  std::vector<const void*> inputs;
  double fill = 0;  // of cells in no piece
  bool adds = false;
  Reducer reducer = Reducer::kSum;
  StreamHandle stream = nullptr;
};

/*!
 * \brief What is made once for a fetch, when its graph is bound.
 *
 * Inputs on GPUs whose memory the reader cannot read are staged: what the pieces read of them is
 * copied next to the output before the launch, on the same stream, into scratch memory of the
 * stream. So a fetch keeps nothing between two launches, and several graphs may launch it. With
 * StagesAll all inputs are staged, which one GPU can show as well.
 */
class DeviceFetch {
 public:
  /*!
   * \param type of the elements, as kernels name it
   * \param device the GPU of the output
   * \param input_devices the GPU of each input
   */
  DeviceFetch(FetchGeometry geometry, std::string type, int device, std::vector<int> input_devices);

  /*! \brief Assemble the region; returns before it is done.
   * \throw CudaError where the output overlaps an input */
  void Launch(const FetchCall& call);

  const FetchGeometry& geometry() const { return geometry_; }
  int device() const { return device_.ordinal(); }
  const std::vector<int>& input_devices() const { return input_devices_; }

  /*! \brief Bytes that are copied for input `i` in every launch; 0 where it is read directly. */
  int64_t staged_bytes(size_t i) const;

 private:
  struct Records {
    FetchTable table;
    DeviceMemory pieces;
    DeviceMemory sources;
  };

  const Records& RecordsFor(int alignment);
  const void* Stage(size_t input, const FetchCall& call, Address to) const;
  int AlignmentOf(const FetchCall& call) const;
  void CheckOverlap(const FetchCall& call) const;

  FetchGeometry geometry_;
  std::string type_;
  Device& device_;
  std::vector<int> input_devices_;
  FunctionHandle kernel_;
  std::vector<ByteRange> staged_;  // by input; empty where it is read directly
  std::vector<size_t> staging_;    // by input: its place in the scratch memory of a stream
  size_t scratch_bytes_ = 0;
  std::mutex mutex_;
  std::map<int, Records> records_;  // by alignment
};

}  // namespace cuda
}  // namespace tofu

#endif  // TOFU_CUDA_DEVICE_FETCH_H_
