/*!
 * \file alike.h
 * \brief Variables of a pairwise problem with equal surroundings.
 */
#pragma once

#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief Return a number for each variable. Variables that are alike within `radius` have equal
 * numbers.
 *
 * Variables are alike if their values cost the same and if equal tables connect them to variables
 * that are alike within `radius` - 1. The time is linear in radius times pairs, and in the entries
 * of distinct tables.
 */
std::vector<int> FindAlike(const PairwiseProblem& problem, int radius);

}  // namespace tofu
