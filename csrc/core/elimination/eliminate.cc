/*!
 * \file eliminate.cc
 * \brief Bucket elimination over flat tables.
 */
#include "core/elimination/eliminate.h"

#include <algorithm>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/parallel.h"

namespace tofu {

namespace {

/*! \brief A function of the variables in `scope`, ascending; row-major, the last one fastest. */
struct Table {
  std::vector<int> scope;
  std::pmr::vector<Weight> entries;
};

/*! \brief The best value of an eliminated variable for each assignment of its neighbours. */
struct Decision {
  int variable = 0;
  std::vector<int> scope;
  std::vector<uint16_t> best;
};

class Elimination {
 public:
  Elimination(const EliminationProblem& problem, size_t max_entries)
      : problem_(problem), max_entries_(max_entries) {
    of_variable_.resize(problem.unary.size());
    for (const PairFactor& pair : problem.pairs)
      AddTable({{std::min(pair.first, pair.second), std::max(pair.first, pair.second)}, {}});
  }

  EliminationResult Run() {
    EliminationResult result;
    result.order = problem_.order.empty() ? FindEliminationOrder(Neighbours()) : problem_.order;
    for (int v : result.order) result.weight += EliminateVariable(v);
    result.largest_table = largest_table_;
    result.values.assign(problem_.unary.size(), 0);
    for (auto decision = decisions_.rbegin(); decision != decisions_.rend(); ++decision) {
      size_t index = 0;
      for (int v : decision->scope) index = index * DomainSize(v) + result.values[v];
      result.values[decision->variable] = decision->best[index];
    }
    return result;
  }

 private:
  size_t DomainSize(int v) const { return problem_.unary[v].size(); }

  Table FromPair(const PairFactor& pair) {
    const size_t rows = DomainSize(pair.first);
    const size_t columns = DomainSize(pair.second);
    const bool is_ascending = pair.first < pair.second;
    Table table{{std::min(pair.first, pair.second), std::max(pair.first, pair.second)},
                std::pmr::vector<Weight>(rows * columns, &memory_)};
    for (size_t x = 0; x < rows; ++x) {
      for (size_t y = 0; y < columns; ++y) {
        table.entries[is_ascending ? x * columns + y : y * rows + x] =
            MakeWeight(pair.bytes[x * columns + y], 0);
      }
    }
    return table;
  }

  void AddTable(Table table) {
    const int id = static_cast<int>(tables_.size());
    for (int v : table.scope) of_variable_[v].push_back(id);
    tables_.push_back(std::move(table));
  }

  std::vector<std::vector<int>> Neighbours() const {
    std::vector<std::vector<int>> neighbours(problem_.unary.size());
    for (const PairFactor& pair : problem_.pairs) {
      neighbours[pair.first].push_back(pair.second);
      neighbours[pair.second].push_back(pair.first);
    }
    for (auto& list : neighbours) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    return neighbours;
  }

  /*! \brief The tables that still hold v, taken out of play. Those of pairs are filled in only
   * now, when they are used: all together they would not fit into a cache. */
  std::vector<Table> TakeTables(int v) {
    std::vector<Table> taken;
    for (int id : of_variable_[v]) {
      if (tables_[id].scope.empty()) continue;
      const bool is_pair = id < static_cast<int>(problem_.pairs.size());
      taken.push_back(is_pair ? FromPair(problem_.pairs[id]) : std::move(tables_[id]));
      tables_[id] = Table();
    }
    return taken;
  }

  std::vector<int> JoinScopes(const std::vector<Table>& tables, int without) const {
    std::vector<int> scope;
    for (const Table& table : tables)
      scope.insert(scope.end(), table.scope.begin(), table.scope.end());
    std::sort(scope.begin(), scope.end());
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    scope.erase(std::remove(scope.begin(), scope.end(), without), scope.end());
    return scope;
  }

  size_t CountEntries(int v, const std::vector<int>& scope) {
    size_t entries = 1;
    for (int other : scope) {
      entries *= DomainSize(other);
      if (entries > max_entries_) {
        throw std::runtime_error(
            "the search needs a table over " + std::to_string(scope.size()) +
            " variables at variable " + std::to_string(v) + ", of more than " +
            std::to_string(max_entries_) +
            " entries: the graph is too densely connected; tie equal parts or fix some choices");
      }
    }
    largest_table_ = std::max(largest_table_, entries);
    return entries;
  }

  /*! \brief Steps of one table's index: for v, and for each variable of the joint scope (0 where
   * the table lacks it). */
  struct Strides {
    size_t of_variable = 0;
    std::vector<size_t> of_scope;
  };

  Strides ComputeStrides(const Table& table, int v, const std::vector<int>& scope) const {
    Strides strides;
    strides.of_scope.assign(scope.size(), 0);
    size_t stride = 1;
    for (size_t i = table.scope.size(); i-- > 0;) {
      if (table.scope[i] == v) {
        strides.of_variable = stride;
      } else {
        const auto place = std::lower_bound(scope.begin(), scope.end(), table.scope[i]);
        strides.of_scope[place - scope.begin()] = stride;
      }
      stride *= DomainSize(table.scope[i]);
    }
    return strides;
  }

  /*! \brief Removes v; returns the constant that is left where v has no neighbours. */
  Weight EliminateVariable(int v) {
    const std::vector<Table> tables = TakeTables(v);
    std::vector<int> scope = JoinScopes(tables, v);
    const size_t entries = CountEntries(v, scope);
    Table joint{std::move(scope), std::pmr::vector<Weight>(entries, &memory_)};
    Decision decision{v, joint.scope, std::vector<uint16_t>(joint.entries.size())};
    Minimise(v, tables, &joint, &decision.best);
    decisions_.push_back(std::move(decision));
    if (joint.scope.empty()) return joint.entries[0];
    AddTable(std::move(joint));
    return 0;
  }

  void Minimise(int v, const std::vector<Table>& tables, Table* joint,
                std::vector<uint16_t>* best) const {
    std::vector<Strides> strides;
    for (const Table& table : tables) strides.push_back(ComputeStrides(table, v, joint->scope));
    constexpr size_t kOperations = size_t{1} << 17;  // that are worth a thread
    const size_t grain = kOperations / (DomainSize(v) * (tables.size() + 1)) + 1;
    ParallelFor(joint->entries.size(), grain, [&](size_t begin, size_t end) {
      MinimiseRange(v, tables, strides, begin, end, joint, best);
    });
  }

  void MinimiseRange(int v, const std::vector<Table>& tables, const std::vector<Strides>& strides,
                     size_t begin, size_t end, Table* joint, std::vector<uint16_t>* best) const {
    std::vector<size_t> offsets(tables.size(), 0);
    std::vector<size_t> digits(joint->scope.size(), 0);
    size_t rest = begin;
    for (size_t i = digits.size(); i-- > 0; rest /= DomainSize(joint->scope[i])) {
      digits[i] = rest % DomainSize(joint->scope[i]);
      for (size_t t = 0; t < offsets.size(); ++t) offsets[t] += digits[i] * strides[t].of_scope[i];
    }
    std::vector<Weight> sums(DomainSize(v));
    for (size_t entry = begin; entry < end; ++entry) {
      sums = problem_.unary[v];
      for (size_t t = 0; t < tables.size(); ++t) {
        const Weight* from = tables[t].entries.data() + offsets[t];
        for (size_t x = 0; x < sums.size(); ++x) sums[x] += from[x * strides[t].of_variable];
      }
      const auto least = std::min_element(sums.begin(), sums.end());
      joint->entries[entry] = *least;
      (*best)[entry] = static_cast<uint16_t>(least - sums.begin());
      Advance(joint->scope, strides, &digits, &offsets);
    }
  }

  /*! \brief Moves digits to the next assignment of the scope, and every table's offset with them.
   */
  void Advance(const std::vector<int>& scope, const std::vector<Strides>& strides,
               std::vector<size_t>* digits, std::vector<size_t>* offsets) const {
    for (size_t i = scope.size(); i-- > 0;) {
      const bool wraps = ++(*digits)[i] == DomainSize(scope[i]);
      for (size_t t = 0; t < offsets->size(); ++t) {
        (*offsets)[t] += strides[t].of_scope[i];
        if (wraps) (*offsets)[t] -= strides[t].of_scope[i] * DomainSize(scope[i]);
      }
      if (!wraps) return;
      (*digits)[i] = 0;
    }
  }

  const EliminationProblem& problem_;
  size_t max_entries_;
  // Of very many small tables that come and go: the heap would be searched ever longer for room.
  std::pmr::unsynchronized_pool_resource memory_;
  std::vector<Table> tables_;
  std::vector<std::vector<int>> of_variable_;
  std::vector<Decision> decisions_;
  size_t largest_table_ = 0;
};

}  // namespace

EliminationResult Eliminate(const EliminationProblem& problem, size_t max_entries) {
  return Elimination(problem, max_entries).Run();
}

}  // namespace tofu
