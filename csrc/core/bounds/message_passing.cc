/*!
 * \file message_passing.cc
 */
#include "core/bounds/message_passing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/byte_loops.h"
#include "core/bounds/star_groups.h"

namespace tofu {

namespace {

constexpr size_t kMostReaders = 6;  // limit of the readers of a star

int64_t Least(const std::vector<int64_t>& values) {
  return *std::min_element(values.begin(), values.end());
}

int64_t SubtractLeast(std::vector<int64_t>* values) {
  const int64_t least = Least(*values);
  for (int64_t& value : *values) value -= least;
  return least;
}

}  // namespace

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

MessagePassing::MessagePassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
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

MessagePassing::MessagePassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
                               const std::vector<int>& order, const MessagePassing& larger,
                               const KeptValues& kept)
    : MessagePassing(problem, stars, order) {
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
void MessagePassing::AddStar(const Star& star, int number) {
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

const std::vector<int64_t>& MessagePassing::FindLeast(const Function& function,
                                                      int position) const {
  if (function.pair != nullptr) {
    LeastOfPair(*function.pair, function.moved, position, buffers_.get());
  } else {
    LeastOfStar(function.star, function.moved, position, buffers_.get());
  }
  return buffers_->least;
}

void MessagePassing::Visit(int variable, bool forward) {
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

void MessagePassing::Sweep() {
  for (int v : order_) Visit(v, true);
  for (auto v = order_.rbegin(); v != order_.rend(); ++v) Visit(*v, false);
}

void MessagePassing::Average(const std::vector<int>& alike) {
  std::map<std::tuple<int, int, const ByteMatrix*>, std::vector<Function*>> classes;
  for (Function& function : functions_) {
    if (function.pair == nullptr) continue;
    const std::vector<int>& variables = function.variables;
    classes[{alike[variables[0]], alike[variables[1]], function.pair}].push_back(&function);
  }
  for (const auto& [key, functions] : classes) {
    const auto count = static_cast<int64_t>(functions.size());
    for (size_t position = 0; position < 2; ++position) {
      std::vector<int64_t> mean(functions.front()->moved[position].size(), 0);
      for (const Function* function : functions) {
        for (size_t x = 0; x < mean.size(); ++x) mean[x] += function->moved[position][x];
      }
      for (int64_t& bytes : mean) bytes /= count;
      for (Function* function : functions) {
        std::vector<int64_t>& moved = function->moved[position];
        std::vector<int64_t>& own = own_[function->variables[position]];
        for (size_t x = 0; x < mean.size(); ++x) own[x] += moved[x] - mean[x];
        moved = mean;
        function->settled = -1;
      }
    }
  }
}

int64_t MessagePassing::Spread(PairwiseProblem* spread) const {
  int64_t bound = 0;
  for (std::vector<int64_t> own : own_) {
    bound += SubtractLeast(&own);
    spread->unary.push_back(ToWeights(own));
  }
  for (const Function& function : functions_) {
    auto rest = std::make_shared<ByteMatrix>(*function.pair);
    for (size_t x = 0; x < rest->rows; ++x) {
      for (size_t y = 0; y < rest->columns; ++y)
        rest->row(x)[y] += function.moved[0][x] + function.moved[1][y];
    }
    bound += SubtractLeast(&rest->entries);
    spread->pairs.push_back({function.variables[0], function.variables[1], std::move(rest)});
  }
  return bound;
}

std::vector<int64_t> MessagePassing::FindCosts(int variable, const std::vector<int>& values) const {
  std::vector<int64_t> costs = own_[variable];
  for (const Place& place : around_[variable]) {
    const Function& function = functions_[place.function];
    const int other = values[function.variables[1 - place.position]];
    if (other < 0) {
      const std::vector<int64_t>& least = FindLeast(function, place.position);
      for (size_t x = 0; x < costs.size(); ++x) costs[x] += least[x];
      continue;
    }
    for (size_t x = 0; x < costs.size(); ++x) {
      costs[x] += function.moved[place.position][x] +
                  (place.position == 0 ? function.pair->at(x, other) : function.pair->at(other, x));
    }
  }
  return costs;
}

std::vector<int> MessagePassing::RoundGreedily() const {
  constexpr int kMaxRounds = 11;
  std::vector<int> values(own_.size(), -1);
  bool has_changed = true;
  for (int round = 0; has_changed && round < kMaxRounds; ++round) {
    has_changed = false;
    for (int v : order_) {
      const std::vector<int64_t> costs = FindCosts(v, values);
      const auto least = std::min_element(costs.begin(), costs.end());
      if (values[v] >= 0 && *least == costs[values[v]]) continue;
      values[v] = static_cast<int>(least - costs.begin());
      has_changed = true;
    }
  }
  return values;
}

int64_t MessagePassing::ComputeBound(std::vector<std::vector<int64_t>>* reduced) const {
  int64_t bound = 0;
  *reduced = own_;
  for (std::vector<int64_t>& costs : *reduced) bound += SubtractLeast(&costs);
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

std::vector<StarExcess> MessagePassing::FindExcess() const {
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

double MessagePassing::CountSteps() const {
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
