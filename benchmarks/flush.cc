/*!
 * \file flush.cc
 * \brief Sets subnormal numbers to zero from the start of a process on, in all of its threads,
 * which have what the thread that makes them has.
 */
#include <pmmintrin.h>
#include <xmmintrin.h>

namespace {

__attribute__((constructor)) void FlushSubnormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}

}  // namespace
