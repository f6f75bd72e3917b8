/*!
 * \file star_variables.cc
 * \brief Sets of patterns that are worth sharing, and their tables.
 */
#include "core/search/star_variables.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace tofu {

namespace {

constexpr size_t kMostStarValues = 2000;              // values of a star
constexpr size_t kMostStarEntries = size_t{1} << 24;  // entries of the tables of all stars

bool IsLess(const StarValue& a, const StarValue& b) {
  return a.centre != b.centre ? a.centre < b.centre : a.patterns < b.patterns;
}

/*! \brief Lists the values of a star for one value of its centre. They are sets of patterns; each
 * set extends a smaller one. */
class SetLister {
 public:
  SetLister(const Star& star, const StarExcess& excess, int64_t most, size_t largest_set,
            int centre, std::vector<StarValue>* values)
      : star_(star),
        excess_(excess),
        most_(most),
        largest_set_(std::min(largest_set, star.readers.size() / 2)),
        centre_(centre),
        values_(*values) {
    std::vector<int64_t> alone;
    for (size_t r = 0; r < star.readers.size(); ++r) {
      std::vector<char> is_needed(star.bytes.size(), 0);
      for (int pattern : star.readers[r].patterns) is_needed[pattern] = 1;
      alone.push_back(kNobodyAsks);
      least_.push_back(kNobodyAsks);
      for (size_t pattern = 0; pattern < is_needed.size(); ++pattern) {
        if (is_needed[pattern] == 0) continue;
        least_.back() = std::min(least_.back(), CostOf(r, pattern));
        alone.back() = std::min(alone.back(), CostOf(r, pattern) + BytesOf(pattern));
      }
      needed_.push_back(std::move(is_needed));
    }
    base_ = excess.centre.empty() ? 0 : excess.centre[centre];
    for (int64_t cost : least_) base_ += cost;
    FindShareable();
    Extend(0, 0, {}, alone);
  }

 private:
  /*! \brief Excess of a reader at a pattern; 0 if it is unknown. */
  int64_t CostOf(size_t reader, size_t pattern) const {
    return excess_.readers.empty() ? 0 : excess_.readers[reader][pattern];
  }
  int64_t BytesOf(size_t pattern) const { return star_.bytes[pattern][centre_]; }

  /*! \brief Find the patterns that have a cost and that two readers can share below the limit. */
  void FindShareable() {
    for (size_t pattern = 0; pattern < star_.bytes.size(); ++pattern) {
      std::vector<int64_t> extra = {kNobodyAsks, kNobodyAsks};
      for (size_t r = 0; r < needed_.size(); ++r) {
        if (needed_[r][pattern] != 0) extra.push_back(CostOf(r, pattern) - least_[r]);
      }
      std::partial_sort(extra.begin(), extra.begin() + 2, extra.end());
      if (BytesOf(pattern) > 0 && extra[1] < kNobodyAsks &&
          base_ + BytesOf(pattern) + extra[0] + extra[1] <= most_)
        shareable_.push_back(pattern);
    }
  }

  /*! \brief Add a set if its cost is below the limit, then its extensions. `costs` has the cost of
   * each reader, which may use a pattern of the set. */
  void Extend(size_t next, int64_t bytes, const std::vector<int>& set,
              const std::vector<int64_t>& costs) {
    if (values_.size() > kMostStarValues) return;
    int64_t total = base_ + bytes;
    for (size_t r = 0; r < costs.size(); ++r) total += costs[r] - least_[r];
    if (total <= most_) values_.push_back({centre_, set});
    if (set.size() == largest_set_) return;
    for (size_t i = next; i < shareable_.size(); ++i) {
      const size_t pattern = shareable_[i];
      if (base_ + bytes + BytesOf(pattern) > most_) continue;
      std::vector<int> larger = set;
      larger.push_back(static_cast<int>(pattern));
      std::vector<int64_t> with = costs;
      for (size_t r = 0; r < with.size(); ++r) {
        if (needed_[r][pattern] != 0) with[r] = std::min(with[r], CostOf(r, pattern));
      }
      Extend(i + 1, bytes + BytesOf(pattern), larger, with);
    }
  }

  const Star& star_;
  const StarExcess& excess_;
  int64_t most_;
  size_t largest_set_;
  int centre_;
  std::vector<StarValue>& values_;
  std::vector<std::vector<char>> needed_;  // by reader and pattern
  std::vector<int64_t> least_;             // least cost of each reader, for any set
  int64_t base_ = 0;                       // cost of the centre plus these costs
  std::vector<size_t> shareable_;          // patterns that several readers may ask for
};

/*! \brief The value of a star that follows from the other variables. */
StarValue FollowingValue(const Star& star, const std::vector<int>& values) {
  StarValue value = {values[star.centre], {}};
  std::vector<int> counts(star.bytes.size(), 0);
  for (const Star::Reader& reader : star.readers)
    ++counts[reader.patterns[values[reader.variable]]];
  for (size_t pattern = 0; pattern < counts.size(); ++pattern) {
    if (counts[pattern] > 1 && star.bytes[pattern][value.centre] > 0)
      value.patterns.push_back(static_cast<int>(pattern));
  }
  return value;
}

size_t FindValue(const std::vector<StarValue>& values, const StarValue& value) {
  return std::lower_bound(values.begin(), values.end(), value, IsLess) - values.begin();
}

/*! \brief List the values of a star: more than kMostStarValues if there are too many. */
std::vector<StarValue> ListValues(const Star& star, const StarExcess& excess, int64_t most,
                                  size_t largest_set, size_t centres, const StarValue& best) {
  std::vector<StarValue> values;
  for (size_t centre = 0; centre < centres; ++centre)
    SetLister(star, excess, most, largest_set, static_cast<int>(centre), &values);
  std::sort(values.begin(), values.end(), IsLess);
  const size_t place = FindValue(values, best);
  if (place == values.size() || IsLess(best, values[place]))
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), best);
  return values;
}

class Tabulation {
 public:
  Tabulation(int64_t forbidden, TabulatedStars* result)
      : forbidden_(forbidden), problem_(result->problem) {}

  void Add(const Star& star, const std::vector<StarValue>& values) {
    const int variable = problem_.size();
    std::vector<Weight> unary;
    for (const StarValue& value : values) {
      int64_t bytes = 0;
      for (int pattern : value.patterns) bytes += star.bytes[pattern][value.centre];
      unary.push_back(MakeWeight(std::min(bytes, forbidden_), 0));
    }
    problem_.unary.push_back(std::move(unary));
    AddTable(variable, star.centre, [&](size_t x, size_t centre) {
      return values[x].centre == static_cast<int>(centre) ? 0 : forbidden_;
    });
    std::map<int, std::vector<const Star::Reader*>> readers;  // by variable
    for (const Star::Reader& reader : star.readers) readers[reader.variable].push_back(&reader);
    for (const auto& of_variable : readers) {
      AddTable(variable, of_variable.first, [&](size_t x, size_t y) {
        int64_t bytes = 0;
        for (const Star::Reader* reader : of_variable.second) {
          const int pattern = reader->patterns[y];
          const std::vector<int>& shared = values[x].patterns;
          if (!std::binary_search(shared.begin(), shared.end(), pattern))
            bytes += star.bytes[pattern][values[x].centre];
        }
        return std::min(bytes, forbidden_);
      });
    }
  }

 private:
  template <typename Bytes>
  void AddTable(int variable, int other, const Bytes& bytes) {
    ByteMatrix matrix;
    matrix.rows = problem_.unary[variable].size();
    matrix.columns = problem_.unary[other].size();
    matrix.entries.reserve(matrix.rows * matrix.columns);
    for (size_t row = 0; row < matrix.rows; ++row) {
      for (size_t column = 0; column < matrix.columns; ++column)
        matrix.entries.push_back(bytes(row, column));
    }
    problem_.pairs.push_back(
        {variable, other, tables_.Add(std::make_shared<ByteMatrix>(std::move(matrix)))});
  }

  int64_t forbidden_;
  PairwiseProblem& problem_;
  DistinctMatrices tables_;
};

}  // namespace

std::optional<TabulatedStars> TabulateStars(const PairwiseProblem& problem,
                                            const std::vector<Star>& stars,
                                            const std::vector<StarExcess>& excess, int64_t most,
                                            size_t largest_set, const std::vector<int>& best,
                                            int64_t forbidden) {
  TabulatedStars result{problem, {}};
  size_t entries = 0;
  for (size_t s = 0; s < stars.size(); ++s) {
    const size_t centres = problem.unary[stars[s].centre].size();
    // Without messages, all costs of the star count, also those that are part of the bound.
    const int64_t most_of_star = excess[s].readers.empty() ? forbidden : most;
    result.values.push_back(ListValues(stars[s], excess[s], most_of_star, largest_set, centres,
                                       FollowingValue(stars[s], best)));
    size_t others = centres;
    for (const Star::Reader& reader : stars[s].readers) others += reader.patterns.size();
    const size_t values = result.values.back().size();
    entries += values * others;
    if (values > kMostStarValues || entries > kMostStarEntries) return std::nullopt;
  }
  Tabulation tabulation(forbidden, &result);
  for (size_t s = 0; s < stars.size(); ++s) tabulation.Add(stars[s], result.values[s]);
  return result;
}

void CompleteStars(const std::vector<Star>& stars, const TabulatedStars& tabulated,
                   std::vector<int>* values) {
  for (size_t s = 0; s < stars.size(); ++s) {
    const StarValue value = FollowingValue(stars[s], *values);
    values->push_back(static_cast<int>(FindValue(tabulated.values[s], value)));
  }
}

StarExcess RestrictExcess(const StarExcess& excess, const std::vector<int>& kept) {
  StarExcess restricted{{}, excess.readers};
  if (excess.centre.empty()) return restricted;
  for (int value : kept) restricted.centre.push_back(excess.centre[value]);
  return restricted;
}

}  // namespace tofu
