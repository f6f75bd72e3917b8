/*!
 * \file gpu_fetches.h
 * \brief Fetches on a GPU, compared with a loop over elements.
 */
#pragma once

#include <cstddef>

namespace tofu_gpu {

/*! \brief Runs random fetches, prints wrong ones and adds their number to `failures`. Returns how
 * many ran. */
int CheckFetches(int* failures);

/*! \brief Prints bandwidths of regions of so many bytes, one JSON object per line.
 * \param copy bytes read and written in a second by a copy within the GPU */
void MeasureFetches(size_t bytes, int runs, double copy);

}  // namespace tofu_gpu
