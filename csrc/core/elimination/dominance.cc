/*!
 * \file dominance.cc
 * \brief The dominance test. Work for equal tables is done once.
 */
#include "core/elimination/dominance.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "core/base/byte_loops.h"
#include "core/base/parallel.h"

namespace tofu {

namespace {

/*! \brief The rows or columns of a table. Each line has the costs of one value of a variable. */
class Side {
 public:
  /*! \brief `turned` is the transposed table. Both tables must stay alive. */
  Side(const ByteMatrix* bytes, const ByteMatrix* turned, bool of_rows)
      : lines_(of_rows ? bytes : turned), columns_(of_rows ? turned : bytes) {}

  void Prepare() {
    for (size_t value = 0; value < lines_->rows; ++value) {
      const int64_t* line = Line(value);
      cheapest_.push_back(std::min_element(line, line + lines_->columns) - line);
    }
    least_ = std::vector<std::atomic<int64_t>>(lines_->rows * lines_->rows);
    for (std::atomic<int64_t>& least : least_) least = kUnknown;
  }

  /*! \brief The difference table(a, y) - table(b, y) at the y that is cheapest with `a`. */
  int64_t Probe(size_t a, size_t b) const { return CheapestColumn(a)[a] - CheapestColumn(a)[b]; }

  /*! \brief Add Probe(a, b) to the sum of each b. */
  void AddProbes(size_t a, std::vector<int64_t>* sums) const {
    const int64_t* column = CheapestColumn(a);
    for (size_t b = 0; b < sums->size(); ++b) (*sums)[b] += column[a] - column[b];
  }

  /*! \brief The least difference table(a, y) - table(b, y). Threads may compute it twice. */
  int64_t Least(size_t a, size_t b) {
    std::atomic<int64_t>& least = least_[a * lines_->rows + b];
    if (least == kUnknown) least = LeastDifference(Line(a), Line(b), lines_->columns);
    return least;
  }

  size_t num_entries() const { return least_.size(); }

  /*! \brief Additions for the least differences so far. */
  double CountAdditions() const {
    const auto is_known = [](const std::atomic<int64_t>& least) { return least != kUnknown; };
    return static_cast<double>(lines_->columns) *
           static_cast<double>(std::count_if(least_.begin(), least_.end(), is_known));
  }

 private:
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  const int64_t* Line(size_t value) const { return lines_->row(value); }
  const int64_t* CheapestColumn(size_t value) const { return columns_->row(cheapest_[value]); }

  const ByteMatrix* lines_;
  const ByteMatrix* columns_;
  std::vector<size_t> cheapest_;             // by value
  std::vector<std::atomic<int64_t>> least_;  // [a * rows + b]
};

/*! \brief Variables with equal unary bytes and equal tables. Only their ties differ. */
struct VariableClass {
  std::vector<int64_t> unary;
  std::vector<int> sides;

  struct Candidate {
    int value;
    bool is_equal;  // true if the bytes may be equal, so that ties decide
  };
  std::vector<std::vector<Candidate>> no_worse = {};  // values that never cost more bytes, by value

  void Compute(std::deque<Side>* all) {
    const size_t count = unary.size();
    no_worse.resize(count);
    for (size_t a = 0; a < count; ++a) {
      std::vector<int64_t> differences;
      for (size_t b = 0; b < count; ++b) differences.push_back(unary[a] - unary[b]);
      for (int side : sides) (*all)[side].AddProbes(a, &differences);
      for (size_t b = 0; b < count; ++b) {
        if (a == b) continue;
        int64_t difference = differences[b];
        for (size_t i = 0; i < sides.size() && difference >= 0; ++i) {
          Side& side = (*all)[sides[i]];
          difference += side.Least(a, b) - side.Probe(a, b);
        }
        if (difference >= 0) no_worse[a].push_back({static_cast<int>(b), difference == 0});
      }
    }
  }
};

class DominanceTest {
 public:
  explicit DominanceTest(const PairwiseProblem& problem) : problem_(problem) {
    std::vector<std::vector<int>> around(problem.size());
    for (const ByteMatrix* table : ListTables(problem)) turned_[table];
    for (const PairTable& pair : problem.pairs) {
      around[pair.first].push_back(FindSide(pair.bytes.get(), true));
      around[pair.second].push_back(FindSide(pair.bytes.get(), false));
    }
    for (int v = 0; v < problem.size(); ++v) of_variable_.push_back(FindClass(v, &around[v]));
    for (auto& [table, turned] : turned_) {
      turned = Transpose(*table);
      num_entries_ += turned.entries.size();
    }
    ParallelFor(sides_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) sides_[i].Prepare();
    });
    ParallelFor(classes_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) classes_[i].Compute(&sides_);
    });
    for (const VariableClass& of_class : classes_) {
      additions_ += static_cast<double>(of_class.sides.size()) *
                    static_cast<double>(of_class.unary.size() * of_class.unary.size());
    }
    for (const Side& side : sides_) {
      num_entries_ += side.num_entries();
      additions_ += side.CountAdditions();
    }
  }

  Dominance Run() {
    Dominance result;
    result.num_entries = num_entries_;
    result.additions = additions_;
    for (int v = 0; v < problem_.size(); ++v) {
      std::vector<int> stand_in = FindStandIns(v);
      std::vector<int> kept;
      for (size_t a = 0; a < stand_in.size(); ++a) {
        if (stand_in[a] == static_cast<int>(a)) kept.push_back(static_cast<int>(a));
      }
      result.is_reduced = result.is_reduced || kept.size() < stand_in.size();
      result.kept.push_back(std::move(kept));
      result.stand_ins.push_back(std::move(stand_in));
    }
    return result;
  }

 private:
  int FindSide(const ByteMatrix* bytes, bool of_rows) {
    const auto found = known_sides_.emplace(std::make_pair(bytes, of_rows), sides_.size());
    if (found.second) sides_.emplace_back(bytes, &turned_.at(bytes), of_rows);
    return static_cast<int>(found.first->second);
  }

  size_t FindClass(int v, std::vector<int>* sides) {
    std::sort(sides->begin(), sides->end());
    const auto found = known_classes_.emplace(std::make_pair(ListBytes(problem_.unary[v]), *sides),
                                              classes_.size());
    if (found.second) classes_.push_back({found.first->first.first, std::move(*sides)});
    return found.first->second;
  }

  bool IsDominated(int v, int a, VariableClass::Candidate b) const {
    if (!b.is_equal) return true;
    const auto tie_of = [&](int value) { return static_cast<uint64_t>(problem_.unary[v][value]); };
    return std::make_pair(tie_of(b.value), b.value) < std::make_pair(tie_of(a), a);
  }

  /*! \brief Domination is transitive, so each chain ends at a value that stays. */
  std::vector<int> FindStandIns(int v) const {
    const size_t count = problem_.unary[v].size();
    std::vector<int> stand_in = CountUp(count);
    for (size_t a = 0; a < count; ++a) {
      for (const VariableClass::Candidate b : classes_[of_variable_[v]].no_worse[a]) {
        if (stand_in[b.value] != b.value || !IsDominated(v, static_cast<int>(a), b)) continue;
        stand_in[a] = b.value;
        break;
      }
    }
    for (size_t a = 0; a < count; ++a) {
      while (stand_in[stand_in[a]] != stand_in[a]) stand_in[a] = stand_in[stand_in[a]];
    }
    return stand_in;
  }

  const PairwiseProblem& problem_;
  std::map<const ByteMatrix*, ByteMatrix> turned_;  // by table
  std::deque<Side> sides_;
  std::map<std::pair<const ByteMatrix*, bool>, size_t> known_sides_;
  std::vector<VariableClass> classes_;
  std::map<std::pair<std::vector<int64_t>, std::vector<int>>, size_t> known_classes_;
  std::vector<size_t> of_variable_;  // the class of each variable
  size_t num_entries_ = 0;
  double additions_ = 0;
};

}  // namespace

double CountDominanceEntries(const PairwiseProblem& problem) {
  double entries = 0;
  for (const ByteMatrix* table : ListTables(problem)) {
    const auto rows = static_cast<double>(table->rows);
    const auto columns = static_cast<double>(table->columns);
    entries += rows * rows + columns * columns + rows * columns;
  }
  return entries;
}

Dominance FindDominated(const PairwiseProblem& problem) { return DominanceTest(problem).Run(); }

EliminationResult EliminateInStages(const PairwiseProblem& problem, double large_table) {
  Part left = MakePart(problem);
  EliminationEstimate estimate = EstimateElimination(left.problem, left.originals);
  while (estimate.largest_table > large_table) {
    const Dominance dominance = FindDominated(left.problem);
    if (!dominance.is_reduced) break;
    left = Select(left, dominance.kept);
    estimate = EstimateElimination(left.problem, left.originals);
  }
  EliminationResult best =
      EliminatePairwise(left.problem, kMaxTableEntries, std::move(estimate.order));
  for (size_t v = 0; v < best.values.size(); ++v)
    best.values[v] = left.originals[v][best.values[v]];
  return best;
}

}  // namespace tofu
