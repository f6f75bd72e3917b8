/*!
 * \file star_variables.h
 * \brief Conversion of stars (message_passing.h) to variables and tables of a pairwise problem.
 *
 * A star becomes a variable. A value of this variable is a value of the centre, with a set of
 * patterns that are fetched for several readers. The conversion is exact:
 *  - The unary cost is the bytes of the patterns in the set, at the value of the centre.
 *  - The table with a reader is 0 if the reader's pattern is in the set, else the bytes of the
 * pattern.
 *  - The table with the centre forbids other values of the centre.
 *
 * A shared pattern has at least two readers, so sets of up to half as many patterns as readers
 * suffice. Message passing is exact within these tables, because they form a star.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bounds/message_passing.h"
#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief A value of the variable of a star. */
struct StarValue {
  int centre;
  std::vector<int> patterns;  // patterns with several readers, ascending
};

/*! \brief A pairwise problem with a variable for each star, after all others. */
struct TabulatedStars {
  PairwiseProblem problem;
  std::vector<std::vector<StarValue>> values;  // by star, sorted
};

/*! \brief Add variables and tables for all stars. Their values are those that cost at most `most`
 * above the least, and the values of the assignment `best`. For stars of unknown excess, they are
 * the values that cost at most `forbidden`. A cost of `forbidden` bytes means impossible. Sets with
 * more than `largest_set` patterns are left out, so some assignments cost more than they should.
 * \return nothing if a star has too many values or the tables too many entries */
std::optional<TabulatedStars> TabulateStars(const PairwiseProblem& problem,
                                            const std::vector<Star>& stars,
                                            const std::vector<StarExcess>& excess, int64_t most,
                                            size_t largest_set, const std::vector<int>& best,
                                            int64_t forbidden);

constexpr size_t kAllSets = ~size_t{0};

/*! \brief Append the values of star variables, which follow from the values of all others. */
void CompleteStars(const std::vector<Star>& stars, const TabulatedStars& tabulated,
                   std::vector<int>* values);

/*! \brief Restrict an excess to the kept values of its centre. */
StarExcess RestrictExcess(const StarExcess& excess, const std::vector<int>& kept);

}  // namespace tofu
