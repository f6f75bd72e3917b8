/*!
 * \file phase.h
 * \brief Phases of a training step, with the numbers of tofu.graph.Phase in Python.
 */
#pragma once

#include <cstdint>

namespace tofu {

enum Phase : int { kForwardPhase = 0, kBackwardPhase = 1, kUpdatePhase = 2 };
constexpr int kNumPhases = 3;

inline bool IsPhase(int64_t number) { return number >= 0 && number < kNumPhases; }

}  // namespace tofu
