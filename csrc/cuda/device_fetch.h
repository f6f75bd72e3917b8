/*!
 * \file device_fetch.h
 * \brief Run a fetch, which assembles a region of a tensor from pieces, on a GPU.
 */
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/prepare_fetch.h"

namespace tofu::cuda {

/*! \brief Return true if TOFU_STAGE_FETCHES=1. Inputs are then always copied first, and no GPU
 * reads another GPU's memory. */
bool StagesAll();

/*! \brief The arrays of one launch of a fetch. */
struct FetchCall {
  void* output = nullptr;
  std::vector<const void*> inputs;
  double fill = 0;  // outside all pieces
  bool adds = false;
  Reducer reducer = Reducer::kSum;
  StreamHandle stream = nullptr;
};

/*!
 * \brief A fetch prepared for a GPU when its graph is bound.
 *
 * If a GPU cannot read the memory of an input's GPU, the input is staged: before each launch, the
 * bytes to read are copied to the stream's scratch memory. A fetch keeps nothing between launches,
 * so several graphs may launch it.
 */
class DeviceFetch {
 public:
  /*!
   * \param type of the elements, as named in kernels
   * \\param device the GPU of the output
   * \\param input_devices the GPU of each input
   */
  DeviceFetch(FetchGeometry geometry, std::string type, int device, std::vector<int> input_devices);

  /*!
   * \brief Start the fetch, and return before it has finished.
   * \\throw CudaError if the output overlaps an input
   */
  void Launch(const FetchCall& call);

  const FetchGeometry& geometry() const { return geometry_; }
  int device() const { return device_.ordinal(); }
  const std::vector<int>& input_devices() const { return input_devices_; }

  /*! \brief Return the bytes of input `i` that each launch copies; 0 if it is read directly. */
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
  std::vector<ByteRange> staged_;  // by input; empty if it is read directly
  std::vector<size_t> staging_;    // by input: offset in the scratch memory
  size_t scratch_bytes_ = 0;
  std::mutex mutex_;
  std::map<int, Records> records_;  // by alignment
};

}  // namespace tofu::cuda
