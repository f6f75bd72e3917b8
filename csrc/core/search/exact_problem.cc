/*!
 * \file exact_problem.cc
 */
#include "core/search/exact_problem.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/numbering.h"
#include "core/cost/class_cost.h"
#include "core/cost/sharing.h"
#include "core/cost/tables.h"
#include "core/search/ties.h"

namespace tofu {

namespace {

/*! \brief Return numbers that are equal for variables that share sequences. */
std::vector<int> NumberShared(const std::vector<SharedSequences>& sequences) {
  std::map<const void*, int> known;
  std::vector<int> numbers;
  for (const SharedSequences& of_variable : sequences) {
    numbers.push_back(
        known.emplace(of_variable.get(), static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

class Tabulation {
 public:
  Tabulation(const SearchVariables& variables, const WorkerGrid& grid, Counting counting,
             int64_t ceiling, const ExactSize& size, double holding_share = 1)
      : graph_(variables.graph()),
        grid_(grid),
        variables_(variables),
        counting_(counting),
        ceiling_(ceiling),
        size_(graph_, grid_, size),
        holding_share_(holding_share),
        tables_(variables.incidences(), grid,
                counting == Counting::kByClass ? BoundIncidence : TabulateIncidence),
        regions_(graph_, grid_) {}

  /*! \brief Throw std::length_error for a problem that is too large. `list_of` has numbers that are
   * equal for variables with equal sequences, and count(variable) is their number. */
  template <typename Count>
  void CheckSize(const std::vector<int>& list_of, const Count& count) {
    std::vector<double> counts;
    for (int v = 0; v < variables_.size(); ++v) {
      if (list_of[v] == static_cast<int>(counts.size())) counts.push_back(count(v));
    }
    size_.Check(tables_, variables_, list_of, counts, counting_ == Counting::kByClass);
  }

  ExactProblem Run(std::vector<SharedSequences> sequences, const std::function<void()>& pause) {
    problem_.sequences = std::move(sequences);
    problem_.is_by_class = counting_ == Counting::kByClass;
    list_of_ = NumberShared(problem_.sequences);
    for (size_t v = 0; v < list_of_.size(); ++v) {
      if (list_of_[v] == static_cast<int>(lists_.size()))
        lists_.push_back(tables_.Intern(*problem_.sequences[v]));
    }
    AddTies();
    AddHolding();
    Prepare(pause);
    AddCosts();
    OrderVariables();
    problem_.held_bytes = size_.held_bytes();
    return std::move(problem_);
  }

 private:
  int OperatorVariable(size_t i) const { return variables_.OfOperator(tables_.incidences()[i].op); }
  int TensorVariable(size_t i) const { return variables_.OfTensor(tables_.incidences()[i].tensor); }
  const ChoiceList& List(int variable) const { return lists_[list_of_[variable]]; }

  void AddTies() {
    const TieWeights ties(variables_.size());
    for (int v = 0; v < variables_.size(); ++v) {
      std::vector<Weight> unary;
      unary.reserve(problem_.sequences[v]->size());
      const uint64_t label = variables_.label(v);
      for (const std::vector<int>& choices : *problem_.sequences[v]) {
        const uint64_t tie = counting_ == Counting::kLastRound
                                 ? ties.OfChoice(label, grid_.num_rounds() - 1, choices.back())
                                 : ties.OfSequence(label, choices);
        unary.push_back(MakeWeight(0, tie));
      }
      problem_.pairwise.unary.push_back(std::move(unary));
    }
  }

  void AddHolding() {
    for (int id = 0; id < graph_.num_tensors(); ++id) {
      const int v = variables_.OfTensor(id);
      std::vector<Weight>& unary = problem_.pairwise.unary[v];
      for (size_t x = 0; x < unary.size(); ++x) {
        const auto cost = static_cast<int64_t>(
            holding_share_ * HoldingCost(graph_, id, grid_, (*problem_.sequences[v])[x]));
        unary[x] += MakeWeight(std::min(cost, ceiling_), 0);
      }
    }
  }

  /*! \brief Return true unless the incidence is left out of a lower bound. */
  bool IsCounted(size_t i) const {
    if (counting_ != Counting::kByClass) return true;
    const auto rows = static_cast<double>(List(OperatorVariable(i)).choices.size());
    return rows * static_cast<double>(List(TensorVariable(i)).choices.size()) <=
           size_.max_table_entries();
  }

  void Prepare(const std::function<void()>& pause) {
    std::vector<CostTables::Request> requests;
    for (size_t i = 0; i < tables_.incidences().size(); ++i) {
      if (IsCounted(i))
        requests.push_back({i, &List(OperatorVariable(i)), &List(TensorVariable(i))});
    }
    problem_.num_entries = tables_.Prepare(requests, pause);
  }

  /*! \brief Add one table per pair of variables: the sum over the incidences that connect them. */
  void AddCosts() {
    std::map<std::pair<int, int>, std::vector<const std::vector<int64_t>*>> parts;
    for (size_t i : MakeStars()) {
      const int op = OperatorVariable(i);
      const int tensor = TensorVariable(i);
      const std::vector<int64_t>& bytes = tables_.Get(i, List(op), List(tensor));
      if (op == tensor) {
        std::vector<Weight>& unary = problem_.pairwise.unary[tensor];
        for (size_t x = 0; x < unary.size(); ++x)
          unary[x] += MakeWeight(std::min(bytes[x * unary.size() + x], ceiling_), 0);
      } else {
        parts[{op, tensor}].push_back(&bytes);
      }
    }
    std::map<std::pair<int, std::vector<const std::vector<int64_t>*>>, SharedMatrix> sums;
    for (auto& [pair, tables] : parts) {
      std::sort(tables.begin(), tables.end());
      // The key includes the rows, which the tables of a sum do not determine.
      SharedMatrix& sum = sums[{list_of_[pair.first], tables}];
      if (sum == nullptr) sum = Sum(List(pair.first), List(pair.second), tables);
      problem_.pairwise.pairs.push_back({pair.first, pair.second, sum});
    }
  }

  /*! \brief Make stars. Return the other incidences, which become pairs. */
  std::vector<size_t> MakeStars() {
    std::vector<size_t> rest;
    std::map<std::pair<int, int>, std::vector<size_t>> groups;  // by tensor and phase
    const bool shares_regions = graph_.shares_regions() && counting_ != Counting::kLastRound;
    const std::vector<char> held = FindHeldTensors(graph_);
    for (size_t i = 0; i < tables_.incidences().size(); ++i) {
      const Incidence& incidence = tables_.incidences()[i];
      if (!IsCounted(i)) continue;
      if (shares_regions && !incidence.is_write && !held[incidence.tensor] &&
          graph_.op(incidence.op).follows_tensor < 0) {
        groups[{incidence.tensor, incidence.phase}].push_back(i);
      } else {
        rest.push_back(i);
      }
    }
    // Repeated layers have equal groups, whose stars are made once.
    using EqualGroups = std::vector<const std::vector<size_t>*>;
    std::map<std::vector<std::array<int, 3>>, EqualGroups> equal;
    std::vector<const EqualGroups*> in_order;
    for (const auto& group : groups) {
      std::vector<std::array<int, 3>> key;
      for (size_t i : group.second)
        key.push_back({tables_.signature(i), OperatorVariable(i), TensorVariable(i)});
      EqualGroups& members = equal[std::move(key)];
      if (members.empty()) in_order.push_back(&members);
      members.push_back(&group.second);
    }
    for (const EqualGroups* members : in_order) {
      Star star = MakeStar(*members->front(), static_cast<int64_t>(members->size()));
      if (IsShareable(star)) {
        AddStar(std::move(star));
      } else {
        for (const std::vector<size_t>* reads : *members)
          rest.insert(rest.end(), reads->begin(), reads->end());
      }
    }
    return rest;
  }

  /*! \brief Add a star. Stars with equal variables and patterns, as of repeated layers, become one.
   */
  void AddStar(Star star) {
    std::vector<std::pair<int, std::vector<int>>> form = {{star.centre, {}}};
    for (const Star::Reader& reader : star.readers)
      form.emplace_back(reader.variable, reader.patterns);
    const auto found = star_of_form_.emplace(std::move(form), problem_.stars.size());
    if (found.second) {
      problem_.stars.push_back(std::move(star));
      return;
    }
    Star& sum = problem_.stars[found.first->second];
    for (size_t pattern = 0; pattern < star.bytes.size(); ++pattern) {
      for (size_t x = 0; x < star.bytes[pattern].size(); ++x) {
        int64_t& bytes = sum.bytes[pattern][x];
        bytes = std::min(bytes + star.bytes[pattern][x], ceiling_);
      }
    }
  }

  /*! \brief Number the regions of a read at each choice of its operator. */
  const std::vector<int>& FindRegions(size_t i) {
    const auto found =
        regions_of_.try_emplace({tables_.signature(i), List(OperatorVariable(i)).id});
    if (found.second) {
      const Incidence& incidence = tables_.incidences()[i];
      for (const std::vector<int>& choice : List(OperatorVariable(i)).choices)
        found.first->second.push_back(NumberRegions(incidence, choice));
    }
    return found.first->second;
  }

  int NumberRegions(const Incidence& incidence, const std::vector<int>& choice) {
    const Input& input = *incidence.reads.front();
    if (counting_ == Counting::kByClass)
      return sizes_.Of(DescribeSizes(graph_, grid_, incidence.op, input, choice));
    size_.Hold(size_.BytesOfBoxes(incidence.tensor));  // regions are compared as a whole
    return regions_.Of(incidence.op, input, choice);
  }

  /*! \brief Make one star for `count` tensors that are read alike. `reads` reads one of them. */
  Star MakeStar(const std::vector<size_t>& reads, int64_t count) {
    Star star;
    std::map<int, int> known;
    for (size_t i : reads) {
      const ChoiceList& choices = List(OperatorVariable(i));
      const ChoiceList& layouts = List(TensorVariable(i));
      const std::vector<int64_t>& bytes = tables_.Get(i, choices, layouts);
      star.centre = TensorVariable(i);
      star.readers.push_back({OperatorVariable(i), {}});
      const std::vector<int>& regions = FindRegions(i);
      for (size_t choice = 0; choice < choices.choices.size(); ++choice) {
        const auto found = known.emplace(regions[choice], static_cast<int>(known.size()));
        star.readers.back().patterns.push_back(found.first->second);
        if (found.second) {
          size_.Hold(static_cast<double>(sizeof(int64_t) * layouts.choices.size()));
          star.bytes.emplace_back(layouts.choices.size(), ceiling_);
        }
        // Equal regions cost the same, but the lower bounds for them may differ.
        std::vector<int64_t>& of_pattern = star.bytes[found.first->second];
        for (size_t layout = 0; layout < of_pattern.size(); ++layout) {
          of_pattern[layout] = std::min(of_pattern[layout],
                                        Repeat(bytes[choice * of_pattern.size() + layout], count));
        }
      }
    }
    return star;
  }

  int64_t Repeat(int64_t bytes, int64_t count) const {
    return bytes <= ceiling_ / count ? bytes * count : ceiling_;
  }

  /*! \brief Return true if two readers may ask for equal regions at a cost. */
  static bool IsShareable(const Star& star) {
    std::vector<int> asking(star.bytes.size(), 0);
    for (const Star::Reader& reader : star.readers) {
      const std::set<int> patterns(reader.patterns.begin(), reader.patterns.end());
      for (int pattern : patterns) ++asking[pattern];
    }
    for (size_t pattern = 0; pattern < asking.size(); ++pattern) {
      const std::vector<int64_t>& bytes = star.bytes[pattern];
      if (asking[pattern] > 1 && *std::max_element(bytes.begin(), bytes.end()) > 0) return true;
    }
    return false;
  }

  SharedMatrix Sum(const ChoiceList& rows, const ChoiceList& columns,
                   const std::vector<const std::vector<int64_t>*>& tables) const {
    auto sum = std::make_shared<ByteMatrix>();
    sum->rows = rows.choices.size();
    sum->columns = columns.choices.size();
    sum->entries = *tables.front();
    for (size_t t = 1; t < tables.size(); ++t) {
      for (size_t x = 0; x < sum->entries.size(); ++x) sum->entries[x] += (*tables[t])[x];
    }
    for (int64_t& bytes : sum->entries) bytes = std::min(bytes, ceiling_);
    return sum;
  }

  /*! \brief Order variables as in the graph: a tensor just after its producer or just before its
   * first reader. */
  void OrderVariables() {
    std::vector<int64_t> places(variables_.size(), -1);
    const auto put = [&](int variable, int64_t place) {
      if (places[variable] < 0) places[variable] = place;
    };
    for (int op = 0; op < graph_.num_operators(); ++op) {
      for (const Input& input : graph_.op(op).inputs)
        put(variables_.OfTensor(input.tensor), 3 * int64_t{op});
      put(variables_.OfOperator(op), 3 * int64_t{op} + 1);
      for (const Output& output : graph_.op(op).outputs)
        put(variables_.OfTensor(output.tensor), 3 * int64_t{op} + 2);
    }
    problem_.order.resize(places.size());
    std::iota(problem_.order.begin(), problem_.order.end(), 0);
    std::stable_sort(problem_.order.begin(), problem_.order.end(),
                     [&](int a, int b) { return places[a] < places[b]; });
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const SearchVariables& variables_;
  Counting counting_;
  int64_t ceiling_;
  ProblemSize size_;
  double holding_share_;  // of the cost of memory
  CostTables tables_;
  std::vector<ChoiceList> lists_;
  std::vector<int> list_of_;  // by variable
  RegionNumbers regions_;
  Numbering sizes_;
  std::map<std::pair<int, int>, std::vector<int>> regions_of_;  // by signature and list of choices
  // Stars by centre, readers and patterns.
  std::map<std::vector<std::pair<int, std::vector<int>>>, size_t> star_of_form_;
  ExactProblem problem_;
};

}  // namespace

ExactProblem BuildExactProblem(const SearchVariables& variables, int64_t ceiling,
                               const ExactSize& size, const std::function<void()>& pause) {
  Tabulation tabulation(variables, variables.grid(), Counting::kExact, ceiling, size);
  tabulation.CheckSize(variables.NumberSequences(),
                       [&](int variable) { return variables.CountSequences(variable); });
  return tabulation.Run(variables.Sequences(), pause);
}

ExactProblem BuildProblem(const SearchVariables& variables, std::vector<SharedSequences> sequences,
                          Counting counting, int64_t ceiling, const ExactSize& size,
                          const std::function<void()>& pause, double holding_share) {
  Tabulation tabulation(variables, variables.grid(), counting, ceiling, size, holding_share);
  tabulation.CheckSize(NumberShared(sequences), [&](int variable) {
    return static_cast<double>(sequences[variable]->size());
  });
  return tabulation.Run(std::move(sequences), pause);
}

PairwiseProblem BuildRounds(const SearchVariables& variables, const WorkerGrid& grid,
                            std::vector<SharedSequences> sequences) {
  Tabulation tabulation(variables, grid, Counting::kLastRound, kForbiddenBytes, {});
  return tabulation.Run(std::move(sequences), [] {}).pairwise;
}

std::vector<int> FindValues(const ExactProblem& problem, const SearchVariables& variables,
                            const Assignment& assignment) {
  std::vector<int> values(problem.sequences.size(), -1);
  const auto find = [&](int variable, const std::vector<int>& choices) {
    const auto& sequences = *problem.sequences[variable];
    const auto place = std::find(sequences.begin(), sequences.end(), choices);
    values[variable] = place == sequences.end() ? -1 : static_cast<int>(place - sequences.begin());
  };
  for (size_t op = 0; op < assignment.operators.size(); ++op)
    find(variables.OfOperator(static_cast<int>(op)), assignment.operators[op]);
  for (size_t tensor = 0; tensor < assignment.tensors.size(); ++tensor)
    find(variables.OfTensor(static_cast<int>(tensor)), assignment.tensors[tensor]);
  return values;
}

Assignment ToAssignment(const ExactProblem& problem, const SearchVariables& variables,
                        const std::vector<int>& values) {
  return variables.MakeAssignment(
      [&](int variable) { return (*problem.sequences[variable])[values[variable]]; });
}

}  // namespace tofu
