/*!
 * \file dominance.cc
 * \brief The dominance test. Work for equal tables is done once.
 */
#include "core/elimination/dominance.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/base/byte_loops.h"
#include "core/base/parallel.h"

namespace tofu {

namespace {

/*! \brief The rows or columns of a table, as values of a variable. */
struct Side {
  const ByteMatrix* bytes;
  bool of_rows;
  std::vector<int64_t> least = {};  // [a * n + b]: min over y of [table(a, y) - table(b, y)]

  void Compute() {
    ByteMatrix turned;
    if (!of_rows) turned = Transpose(*bytes);
    const ByteMatrix* lines = of_rows ? bytes : &turned;
    const size_t length = lines->columns;
    least.reserve(lines->rows * lines->rows);
    for (size_t a = 0; a < lines->rows; ++a) {
      for (size_t b = 0; b < lines->rows; ++b) {
        least.push_back(LeastDifference(lines->entries.data() + a * length,
                                        lines->entries.data() + b * length, length));
      }
    }
  }
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

  void Compute(const std::vector<Side>& all) {
    const size_t count = unary.size();
    no_worse.resize(count);
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        int64_t difference = unary[a] - unary[b];
        for (int side : sides) difference += all[side].least[a * count + b];
        if (a != b && difference >= 0)
          no_worse[a].push_back({static_cast<int>(b), difference == 0});
      }
    }
  }
};

class DominanceTest {
 public:
  explicit DominanceTest(const PairwiseProblem& problem) : problem_(problem) {
    std::vector<std::vector<int>> around(problem.size());
    for (const PairTable& pair : problem.pairs) {
      around[pair.first].push_back(FindSide(pair.bytes.get(), true));
      around[pair.second].push_back(FindSide(pair.bytes.get(), false));
    }
    for (int v = 0; v < problem.size(); ++v) of_variable_.push_back(FindClass(v, &around[v]));
    ParallelFor(sides_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) sides_[i].Compute();
    });
    for (const Side& side : sides_) {
      const size_t count = side.of_rows ? side.bytes->rows : side.bytes->columns;
      num_entries_ += side.least.size();
      additions_ += static_cast<double>(side.bytes->entries.size() * count);
    }
    ParallelFor(classes_.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) classes_[i].Compute(sides_);
    });
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
    if (found.second) sides_.push_back({bytes, of_rows});
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
    const Weight of_a = problem_.unary[v][a];
    const Weight of_b = problem_.unary[v][b.value];
    const Weight difference = of_a - of_b - MakeWeight(WeightBytes(of_a) - WeightBytes(of_b), 0);
    return difference > 0 || (difference == 0 && b.value < a);
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
  std::vector<Side> sides_;
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
    entries += rows * rows + columns * columns;
  }
  return entries;
}

Dominance FindDominated(const PairwiseProblem& problem) { return DominanceTest(problem).Run(); }

EliminationResult EliminateUndominated(PairwiseProblem problem) {
  DistinctMatrices distinct;
  for (PairTable& pair : problem.pairs) pair.bytes = distinct.Add(pair.bytes);
  Part left = MakePart(std::move(problem));
  for (Dominance dominance = FindDominated(left.problem); dominance.is_reduced;
       dominance = FindDominated(left.problem)) {
    left = Select(left, dominance.kept);
  }
  EliminationResult best = EliminatePairwise(left.problem, kMaxTableEntries);
  for (size_t v = 0; v < best.values.size(); ++v)
    best.values[v] = left.originals[v][best.values[v]];
  return best;
}

}  // namespace tofu
