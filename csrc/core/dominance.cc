/*!
 * \file dominance.cc
 * \brief The dominance test, with what is shared by equal tables computed once.
 */
#include "dominance.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_loops.h"

namespace tofu {

namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/*!
 * \brief least[a * n + b] = min over y of [table(a, y) - table(b, y)] for the rows (or columns) of
 * one table, filled in as it is asked for.
 */
class LeastDifferences {
 public:
  LeastDifferences(const ByteMatrix& bytes, bool of_rows)
      : count_(of_rows ? bytes.rows : bytes.columns),
        length_(of_rows ? bytes.columns : bytes.rows),
        lines_(count_ * length_),
        least_(count_ * count_, kUnknown) {
    for (size_t a = 0; a < count_; ++a) {
      for (size_t y = 0; y < length_; ++y)
        lines_[a * length_ + y] = of_rows ? bytes.at(a, y) : bytes.at(y, a);
    }
  }

  int64_t Get(size_t a, size_t b) {
    int64_t& least = least_[a * count_ + b];
    if (least == kUnknown) {
      least = LeastDifference(lines_.data() + a * length_, lines_.data() + b * length_, length_);
    }
    return least;
  }

 private:
  size_t count_;
  size_t length_;
  std::vector<int64_t> lines_;
  std::vector<int64_t> least_;
};

/*! \brief The same for all tables of a variable, and for all variables with these tables. */
class TableDifferences {
 public:
  TableDifferences(std::vector<LeastDifferences*> tables, size_t count)
      : tables_(std::move(tables)), count_(count), least_(count * count, kUnknown) {}

  int64_t Get(size_t a, size_t b) {
    int64_t& least = least_[a * count_ + b];
    if (least == kUnknown) {
      least = 0;
      for (LeastDifferences* table : tables_) least += table->Get(a, b);
    }
    return least;
  }

 private:
  std::vector<LeastDifferences*> tables_;
  size_t count_;
  std::vector<int64_t> least_;
};

class DominanceTest {
 public:
  explicit DominanceTest(const PairwiseProblem& problem) : problem_(problem) {
    std::vector<std::vector<LeastDifferences*>> around(problem.size());
    for (const PairTable& pair : problem.pairs) {
      around[pair.first].push_back(Differences(pair.bytes.get(), true));
      around[pair.second].push_back(Differences(pair.bytes.get(), false));
    }
    for (int v = 0; v < problem.size(); ++v) {
      std::sort(around[v].begin(), around[v].end());
      const size_t count = problem.unary[v].size();
      std::unique_ptr<TableDifferences>& found = known_[{count, around[v]}];
      if (found == nullptr) found = std::make_unique<TableDifferences>(around[v], count);
      of_variable_.push_back(found.get());
    }
  }

  Dominance Run() {
    Dominance result;
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
  LeastDifferences* Differences(const ByteMatrix* bytes, bool of_rows) {
    std::unique_ptr<LeastDifferences>& found = (of_rows ? of_rows_ : of_columns_)[bytes];
    if (found == nullptr) found = std::make_unique<LeastDifferences>(*bytes, of_rows);
    return found.get();
  }

  bool IsDominated(int v, size_t a, size_t b) const {
    const Weight difference =
        problem_.unary[v][a] - problem_.unary[v][b] + MakeWeight(of_variable_[v]->Get(a, b), 0);
    return difference > 0 || (difference == 0 && b < a);
  }

  /*! \brief Domination is transitive, so that a value that stays stands in at the end of each
   * chain. */
  std::vector<int> FindStandIns(int v) const {
    const size_t count = problem_.unary[v].size();
    std::vector<int> stand_in(count);
    for (size_t a = 0; a < count; ++a) stand_in[a] = static_cast<int>(a);
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        if (a == b || stand_in[b] != static_cast<int>(b) || !IsDominated(v, a, b)) continue;
        stand_in[a] = static_cast<int>(b);
        break;
      }
    }
    for (size_t a = 0; a < count; ++a) {
      while (stand_in[stand_in[a]] != stand_in[a]) stand_in[a] = stand_in[stand_in[a]];
    }
    return stand_in;
  }

  const PairwiseProblem& problem_;
  std::map<std::pair<size_t, std::vector<LeastDifferences*>>, std::unique_ptr<TableDifferences>>
      known_;  // by number of values and tables
  std::vector<TableDifferences*> of_variable_;
  std::unordered_map<const ByteMatrix*, std::unique_ptr<LeastDifferences>> of_rows_;
  std::unordered_map<const ByteMatrix*, std::unique_ptr<LeastDifferences>> of_columns_;
};

}  // namespace

Dominance FindDominated(const PairwiseProblem& problem) { return DominanceTest(problem).Run(); }

}  // namespace tofu
