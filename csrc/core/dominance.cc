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

namespace tofu {

namespace {

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
      const int64_t* line_a = lines_.data() + a * length_;
      const int64_t* line_b = lines_.data() + b * length_;
      least = line_a[0] - line_b[0];
      for (size_t y = 1; y < length_; ++y) least = std::min(least, line_a[y] - line_b[y]);
    }
    return least;
  }

  /*! \brief One of the differences: no less than the least. */
  int64_t Sample(size_t a, size_t b, size_t sample) const {
    const size_t y = sample % length_;
    return lines_[a * length_ + y] - lines_[b * length_ + y];
  }

 private:
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  size_t count_;
  size_t length_;
  std::vector<int64_t> lines_;
  std::vector<int64_t> least_;
};

/*! \brief What a variable's tables say of its values, for all variables with these tables. */
class TableDifferences {
 public:
  TableDifferences(std::vector<LeastDifferences*> tables, size_t count)
      : tables_(std::move(tables)),
        count_(count),
        sampled_(count * count, kUnknown),
        least_(count * count, kUnknown) {}

  /*! \brief Whether a costs at least `bytes` more than b wherever the neighbours are. */
  bool IsAtLeast(size_t a, size_t b, int64_t bytes) {
    int64_t& sampled = sampled_[a * count_ + b];
    if (sampled == kUnknown) sampled = Sample(a, b);
    return sampled >= bytes && Get(a, b) >= bytes;
  }

  int64_t Get(size_t a, size_t b) {
    int64_t& least = least_[a * count_ + b];
    if (least == kUnknown) {
      least = 0;
      for (LeastDifferences* table : tables_) least += table->Get(a, b);
    }
    return least;
  }

 private:
  static constexpr size_t kSamples[] = {0, 1, 2, 3, 5, 7, 11, 13, 20, 26, 33, 42, 51, 62};
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  /*! \brief No less than the least, and cheap: most pairs need no more to fail the test. */
  int64_t Sample(size_t a, size_t b) const {
    int64_t least = kUnknown;
    for (size_t sample : kSamples) {
      int64_t sum = 0;
      for (const LeastDifferences* table : tables_) sum += table->Sample(a, b, sample);
      least = std::min(least, sum);
    }
    return least;
  }

  std::vector<LeastDifferences*> tables_;
  size_t count_;
  std::vector<int64_t> sampled_;
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
    const Weight unary = problem_.unary[v][a] - problem_.unary[v][b];
    TableDifferences& tables = *of_variable_[v];
    if (!tables.IsAtLeast(a, b, -WeightBytes(unary))) return false;  // WeightBytes rounds down
    const Weight difference = unary + MakeWeight(tables.Get(a, b), 0);
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
