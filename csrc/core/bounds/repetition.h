/*!
 * \file repetition.h
 * \brief Variables of a pairwise problem that look alike: those of a network's repeated blocks.
 */
#ifndef TOFU_CORE_BOUNDS_REPETITION_H_
#define TOFU_CORE_BOUNDS_REPETITION_H_

#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*!
 * \brief A number for each variable, the same for variables that are alike as far as `radius`.
 *
 * Alike: the costs of their values are equal, and they are connected by equal tables to variables
 * that are alike as far as `radius` - 1. Takes time proportional to the pairs, for each step of the
 * radius, and to the entries of the distinct tables.
 */
std::vector<int> FindAlike(const PairwiseProblem& problem, int radius);

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_REPETITION_H_
