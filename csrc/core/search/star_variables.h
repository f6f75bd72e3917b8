/*!
 * \file star_variables.h
 * \brief Stars (star_passing.h) as variables and tables of a pairwise problem.
 *
 * A star becomes pairwise without loss by a variable whose values are a value of the centre and the
 * patterns that are fetched for several readers:
 *  - by itself, it costs the bytes of these patterns beside its value of the centre;
 *  - beside a reader, it costs nothing where the reader's pattern is among them, else the bytes of
 * that pattern: who shares with nobody pays for itself;
 *  - beside the centre, it may only say the same.
 * A pattern is fetched for two readers at least, so half as many patterns as there are readers are
 * enough. What the variable costs at least is the price of the star. Bounds by message passing lose
 * nothing within it, since its tables form a star as well.
 */
#ifndef TOFU_CORE_SEARCH_STAR_VARIABLES_H_
#define TOFU_CORE_SEARCH_STAR_VARIABLES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bounds/star_passing.h"
#include "core/elimination/pairwise.h"

namespace tofu {

/*! \brief A value of the variable of a star. */
struct StarValue {
  int centre;
  std::vector<int> patterns;  // that are fetched for several readers, ascending
};

/*! \brief A pairwise problem with a variable for each star, after all others. */
struct TabulatedStars {
  PairwiseProblem problem;
  std::vector<std::vector<StarValue>> values;  // by star, ordered
};

/*!
 * \brief Tabulates all stars over the variables of `problem`, with those of their values that cost
 * at most `most` above the least, and those of the assignment `best`. What costs `forbidden` bytes
 * is as good as impossible. Sets of more than `largest_set` patterns are left out, so that some
 * assignments cost more than they do.
 * \return nothing where a star has too many values, or all their tables too many entries.
 */
std::optional<TabulatedStars> TabulateStars(const PairwiseProblem& problem,
                                            const std::vector<Star>& stars,
                                            const std::vector<StarExcess>& excess, int64_t most,
                                            size_t largest_set, const std::vector<int>& best,
                                            int64_t forbidden);

constexpr size_t kAllSets = ~size_t{0};

/*! \brief Appends the values of the stars' variables that follow from those of all others. */
void CompleteStars(const std::vector<Star>& stars, const TabulatedStars& tabulated,
                   std::vector<int>* values);

/*! \brief What is left of the excess where `kept` values are. */
StarExcess RestrictExcess(const StarExcess& excess, const std::vector<int>& kept);

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_STAR_VARIABLES_H_
