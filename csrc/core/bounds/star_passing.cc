/*!
 * \file star_passing.cc
 */
#include "core/bounds/star_passing.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/byte_loops.h"

namespace tofu {

namespace {

constexpr size_t kMostReaders = 6;  // limit of the readers of a star

int64_t Least(const std::vector<int64_t>& values) {
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

/*! \brief Costs of subsets of a star's readers. Rows have an entry for each value of the centre. */
class StarGroups {
 public:
  /*! \brief Find the cost of each subset in its best partition into groups with one pattern.
   * costs[reader * bytes.size() + pattern] is the cost of a reader. */
  void Set(const std::vector<int64_t>& costs, const std::vector<std::vector<int64_t>>& bytes,
           size_t centres) {
    const size_t readers = costs.size() / bytes.size();
    subsets_ = size_t{1} << readers;
    centres_ = centres;
    sums_.assign(bytes.size() * subsets_, 0);
    alone_.assign(subsets_ * centres, kNobodyAsks);
    parted_.assign(subsets_ * centres, 0);
    for (size_t pattern = 0; pattern < bytes.size(); ++pattern) {
      int64_t* sums = sums_.data() + pattern * subsets_;
      for (size_t reader = 0; reader < readers; ++reader) {
        const int64_t cost = costs[reader * bytes.size() + pattern];
        const size_t bit = size_t{1} << reader;
        for (size_t subset = 0; subset < bit; ++subset)
          sums[bit | subset] = std::min(sums[subset] + cost, kNobodyAsks);
      }
      for (size_t subset = 1; subset < subsets_; ++subset) {
        if (sums[subset] < kNobodyAsks)
          LowerTo(sums[subset], bytes[pattern].data(), centres_, Row(&alone_, subset));
      }
    }
    for (size_t set = 1; set < subsets_; ++set) Part(set);
  }

  /*! \brief The least cost of all readers, by value of the centre. */
  const int64_t* All() const { return parted_.data() + (subsets_ - 1) * centres_; }

  /*! \brief The least cost of all readers, if some join a group with this pattern for free. */
  void Join(size_t pattern, std::vector<int64_t>* least) const {
    const int64_t* sums = sums_.data() + pattern * subsets_;
    least->assign(centres_, kNobodyAsks);
    for (size_t group = 0; group < subsets_; ++group) {
      if (sums[group] < kNobodyAsks)
        LowerTo(sums[group], parted_.data() + (subsets_ - 1 - group) * centres_, centres_,
                least->data());
    }
  }

 private:
  int64_t* Row(std::vector<int64_t>* rows, size_t subset) const {
    return rows->data() + subset * centres_;
  }

  void Part(size_t set) {
    const size_t lowest = set & (~set + 1);
    int64_t* parted = Row(&parted_, set);
    std::copy_n(Row(&alone_, set), centres_, parted);
    for (size_t group = (set - 1) & set; group > 0; group = (group - 1) & set) {
      if ((group & lowest) != 0)
        LowerToSum(Row(&alone_, group), Row(&parted_, set ^ group), centres_, parted);
    }
  }

  size_t subsets_ = 1;
  size_t centres_ = 0;
  std::vector<int64_t> sums_;   // [pattern * subsets_ + subset]: cost of the readers at the pattern
  std::vector<int64_t> alone_;  // rows by subset: cost of the subset as one group
  std::vector<int64_t> parted_;  // rows by subset: cost of its best partition into groups
};

struct StarBuffers {
  StarGroups groups;
  std::vector<int64_t> costs;  // of readers, by reader and pattern
  std::vector<int64_t> joined;
  std::vector<int64_t> of_pattern;
  std::vector<char> is_done;
  std::vector<int64_t> least;
};

namespace {

/*! \brief Write the least cost of the values with each pattern. */
void PutByPattern(const std::vector<int>& patterns, const std::vector<int64_t>& costs, size_t count,
                  int64_t* least) {
  std::fill_n(least, count, kNobodyAsks);
  for (size_t x = 0; x < patterns.size(); ++x)
    least[patterns[x]] = std::min(least[patterns[x]], costs[x]);
}

/*! \brief Find the least cost of a star, with the bytes moved to it, by value of the centre
 * (position 0) or of a reader (from 1 on). */
void LeastOfStar(const Star& star, const std::vector<std::vector<int64_t>>& moved, int position,
                 StarBuffers* buffers) {
  const size_t patterns = star.bytes.size();
  std::vector<int64_t>& costs = buffers->costs;
  costs.clear();
  for (size_t r = 0; r < star.readers.size(); ++r) {
    if (static_cast<int>(r) + 1 == position) continue;
    costs.resize(costs.size() + patterns);
    PutByPattern(star.readers[r].patterns, moved[r + 1], patterns,
                 costs.data() + costs.size() - patterns);
  }
  const std::vector<int64_t>& of_centre = moved.front();
  StarGroups& groups = buffers->groups;
  groups.Set(costs, star.bytes, of_centre.size());
  std::vector<int64_t>& least = buffers->least;
  least = moved[position];
  if (position == 0) {
    for (size_t centre = 0; centre < least.size(); ++centre) least[centre] += groups.All()[centre];
    return;
  }
  const std::vector<int>& asked = star.readers[position - 1].patterns;
  std::vector<int64_t>& joined = buffers->joined;
  buffers->of_pattern.resize(patterns);
  buffers->is_done.assign(patterns, 0);
  for (size_t x = 0; x < least.size(); ++x) {
    const int pattern = asked[x];
    if (buffers->is_done[pattern] == 0) {
      buffers->is_done[pattern] = 1;
      groups.Join(pattern, &joined);
      for (size_t centre = 0; centre < joined.size(); ++centre) joined[centre] += of_centre[centre];
      buffers->of_pattern[pattern] =
          std::min(kNobodyAsks, LeastSum(joined.data(), star.bytes[pattern].data(), joined.size()));
    }
    least[x] += buffers->of_pattern[pattern];
  }
}

void LeastOfPair(const ByteMatrix& pair, const std::vector<std::vector<int64_t>>& moved,
                 int position, StarBuffers* buffers) {
  std::vector<int64_t>& least = buffers->least;
  least = moved[position];
  if (position == 0) {
    for (size_t x = 0; x < pair.rows; ++x)
      least[x] += LeastSum(moved[1].data(), pair.row(x), pair.columns);
    return;
  }
  std::vector<int64_t>& columns = buffers->costs;
  columns.assign(pair.columns, kNobodyAsks);
  for (size_t x = 0; x < pair.rows; ++x)
    LowerTo(moved[0][x], pair.row(x), pair.columns, columns.data());
  for (size_t y = 0; y < pair.columns; ++y) least[y] += columns[y];
}

}  // namespace

int64_t EvaluateStar(const Star& star, const std::vector<int>& values) {
  std::vector<int> patterns;
  for (const Star::Reader& reader : star.readers)
    patterns.push_back(reader.patterns[values[reader.variable]]);
  std::sort(patterns.begin(), patterns.end());
  patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  int64_t bytes = 0;
  for (int pattern : patterns) bytes += star.bytes[pattern][values[star.centre]];
  return bytes;
}

Star RestrictStar(const Star& star, const KeptValues& kept) {
  Star restricted{star.centre, {}, {}};
  for (const Star::Reader& reader : star.readers) {
    restricted.readers.push_back({reader.variable, {}});
    for (int value : kept[reader.variable])
      restricted.readers.back().patterns.push_back(reader.patterns[value]);
  }
  for (const std::vector<int64_t>& bytes : star.bytes) {
    restricted.bytes.emplace_back();
    for (int value : kept[star.centre]) restricted.bytes.back().push_back(bytes[value]);
  }
  return restricted;
}

StarPassing::StarPassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
                         const std::vector<int>& order)
    : num_stars_(stars.size()),
      around_(problem.size()),
      order_(order),
      buffers_(std::make_shared<StarBuffers>()) {
  std::vector<int> places(order.size());
  for (size_t place = 0; place < order.size(); ++place)
    places[order[place]] = static_cast<int>(place);
  for (const std::vector<Weight>& unary : problem.unary) own_.push_back(ListBytes(unary));
  for (const PairTable& pair : problem.pairs)
    functions_.push_back({{pair.first, pair.second}, pair.bytes.get()});
  for (size_t s = 0; s < stars.size(); ++s) AddStar(stars[s], static_cast<int>(s));
  for (size_t f = 0; f < functions_.size(); ++f) {
    const std::vector<int>& variables = functions_[f].variables;
    const auto [first, last] = std::minmax_element(
        variables.begin(), variables.end(), [&](int a, int b) { return places[a] < places[b]; });
    for (size_t position = 0; position < variables.size(); ++position) {
      const int place = places[variables[position]];
      const bool goes_on = places[*last] > place;
      const bool goes_back = places[*first] < place;
      around_[variables[position]].push_back(
          {static_cast<int>(f), static_cast<int>(position), goes_on, goes_back});
      functions_[f].moved.emplace_back(own_[variables[position]].size(), 0);
    }
  }
}

StarPassing::StarPassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
                         const std::vector<int>& order, const StarPassing& larger,
                         const KeptValues& kept)
    : StarPassing(problem, stars, order) {
  const auto restrict_to = [](const std::vector<int>& values, const std::vector<int64_t>& from,
                              std::vector<int64_t>* to) {
    for (size_t x = 0; x < values.size(); ++x) (*to)[x] = from[values[x]];
  };
  for (size_t v = 0; v < own_.size(); ++v) restrict_to(kept[v], larger.own_[v], &own_[v]);
  for (size_t f = 0; f < functions_.size(); ++f) {
    Function& function = functions_[f];
    for (size_t position = 0; position < function.variables.size(); ++position) {
      restrict_to(kept[function.variables[position]], larger.functions_[f].moved[position],
                  &function.moved[position]);
    }
  }
}

/*! \brief A star of many readers costs at least as much as the mean over disjoint parts of its
 * readers. */
void StarPassing::AddStar(const Star& star, int number) {
  const size_t parts = (star.readers.size() + kMostReaders - 1) / kMostReaders;
  for (size_t part = 0; part < parts; ++part) {
    Function function{{star.centre}, nullptr, star, number, part, parts};
    function.star.readers.clear();
    for (size_t r = part; r < star.readers.size(); r += parts) {
      function.star.readers.push_back(star.readers[r]);
      function.variables.push_back(star.readers[r].variable);
    }
    for (std::vector<int64_t>& bytes : function.star.bytes) {
      for (int64_t& entry : bytes) entry /= static_cast<int64_t>(parts);
    }
    functions_.push_back(std::move(function));
  }
}

const std::vector<int64_t>& StarPassing::FindLeast(const Function& function, int position) const {
  if (function.pair != nullptr) {
    LeastOfPair(*function.pair, function.moved, position, buffers_.get());
  } else {
    LeastOfStar(function.star, function.moved, position, buffers_.get());
  }
  return buffers_->least;
}

void StarPassing::Visit(int variable, bool forward) {
  std::vector<int64_t>& own = own_[variable];
  std::vector<Place> onwards;
  size_t back = 0;
  for (const Place& place : around_[variable]) {
    Function& function = functions_[place.function];
    if (function.settled != place.position) {
      const std::vector<int64_t>& least = FindLeast(function, place.position);
      for (size_t x = 0; x < own.size(); ++x) {
        own[x] += least[x];
        function.moved[place.position][x] -= least[x];
      }
      function.settled = place.position;
    }
    if (forward ? place.goes_on : place.goes_back) onwards.push_back(place);
    back += forward ? place.goes_back : place.goes_on;
  }
  if (onwards.empty()) return;
  for (const Place& place : onwards) functions_[place.function].settled = -1;
  const auto chains = static_cast<int64_t>(std::max(onwards.size(), back));
  for (size_t x = 0; x < own.size(); ++x) {
    const int64_t share = own[x] / chains;
    for (const Place& place : onwards) functions_[place.function].moved[place.position][x] += share;
    own[x] -= share * static_cast<int64_t>(onwards.size());
  }
}

void StarPassing::Sweep() {
  for (int v : order_) Visit(v, true);
  for (auto v = order_.rbegin(); v != order_.rend(); ++v) Visit(*v, false);
}

int64_t StarPassing::ComputeBound(std::vector<std::vector<int64_t>>* reduced) const {
  int64_t bound = 0;
  *reduced = own_;
  for (std::vector<int64_t>& costs : *reduced) {
    const int64_t least = Least(costs);
    bound += least;
    for (int64_t& cost : costs) cost -= least;
  }
  for (const Function& function : functions_) {
    for (size_t position = 0; position < function.variables.size(); ++position) {
      if (function.settled == static_cast<int>(position)) continue;  // its cost is 0
      const std::vector<int64_t>& costs = FindLeast(function, static_cast<int>(position));
      const int64_t least = Least(costs);
      if (position == 0) bound += least;
      // A variable that occurs twice is counted at its first place.
      const auto place = function.variables.begin() + static_cast<std::ptrdiff_t>(position);
      if (std::find(function.variables.begin(), place, *place) != place) continue;
      std::vector<int64_t>& of_variable = (*reduced)[*place];
      for (size_t x = 0; x < costs.size(); ++x) of_variable[x] += costs[x] - least;
    }
  }
  return bound;
}

std::vector<StarExcess> StarPassing::FindExcess() const {
  std::vector<StarExcess> excess(num_stars_);
  std::set<std::pair<int, int>> counted;  // stars and variables whose own bytes were added
  for (const Function& function : functions_) {
    if (function.number < 0) continue;
    StarExcess& of_star = excess[function.number];
    const int64_t least = Least(FindLeast(function, 0));
    std::vector<std::vector<int64_t>> costs = function.moved;
    for (size_t position = 0; position < costs.size(); ++position) {
      const int variable = function.variables[position];
      if (!counted.emplace(function.number, variable).second) continue;
      const std::vector<int64_t>& own = own_[variable];
      const int64_t least_own = Least(own);
      for (size_t x = 0; x < own.size(); ++x) costs[position][x] += own[x] - least_own;
    }
    of_star.centre.resize(costs.front().size(), 0);
    for (size_t x = 0; x < of_star.centre.size(); ++x)
      of_star.centre[x] += costs.front()[x] - least;
    for (size_t r = 0; r < function.star.readers.size(); ++r) {
      const size_t reader = r * function.parts + function.part;
      if (of_star.readers.size() <= reader) of_star.readers.resize(reader + 1);
      of_star.readers[reader].resize(function.star.bytes.size());
      PutByPattern(function.star.readers[r].patterns, costs[r + 1], function.star.bytes.size(),
                   of_star.readers[reader].data());
    }
  }
  return excess;
}

double StarPassing::CountSteps() const {
  constexpr double kStepsPerCall = 100;  // of FindLeast
  double steps = 0;
  for (const Function& function : functions_) {
    steps += 2 * kStepsPerCall * static_cast<double>(function.variables.size());
    if (function.pair != nullptr) {
      steps += 4 * static_cast<double>(function.pair->entries.size());
      continue;
    }
    const size_t readers = function.star.readers.size();
    steps += 2.0 * static_cast<double>(readers + 1) *
             static_cast<double>(function.moved.front().size() * function.star.bytes.size()) *
             std::exp2(static_cast<double>(readers));
  }
  return steps;
}

}  // namespace tofu
