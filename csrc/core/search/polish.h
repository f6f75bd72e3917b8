/*!
 * \file polish.h
 * \brief Improvement of a plan: optimise two rounds again while all other rounds stay fixed.
 */
#pragma once

#include <functional>
#include <vector>

#include "core/search/exact_problem.h"
#include "core/search/exact_state.h"

namespace tofu {

/*! \brief Return the values, as positions in `originals`, that agree with `values` in all rounds
 * except two. Variables without sequences keep all values. */
KeptValues FreeRounds(const ExactProblem& problem, const KeptValues& originals,
                      const std::vector<int>& values, int first, int second);

/*!
 * \brief Call improve(first, second) with pairs of rounds until it returns false for all pairs, or
 * is_over() returns true. With two rounds, there is nothing to fix.
 *
 * find_kinds() returns a number for each round. A pair is left out if improve() returned false for
 * rounds of the same two kinds, and no other pair has helped since.
 */
void ForEachTwoRounds(const std::function<std::vector<int>()>& find_kinds,
                      const std::function<bool()>& is_over,
                      const std::function<bool(int first, int second)>& improve);

/*! \brief Improve the best plan until no pair of rounds helps or the time is over. */
void Polish(const ExactProblem& problem, const Part& part, ExactState* state);

}  // namespace tofu
