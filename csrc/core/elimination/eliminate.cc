/*!
 * \file eliminate.cc
 */
#include "core/elimination/eliminate.h"

#include <algorithm>
#include <memory_resource>
#include <stdexcept>
#include <utility>

#include "core/base/large_pages.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/elimination/least_of_block.h"

namespace tofu {

namespace {

/*! \brief A function of the variables in `scope`, ascending; row-major, the last one fastest. */
struct Table {
  std::vector<int> scope;
  std::pmr::vector<int64_t> bytes;
  std::pmr::vector<uint64_t> ties;  // empty for pairs, which have none
};

/*! \brief A table as rows: the cost of each value of one variable, by assignment of the others in
 * `scope`. */
struct Rows {
  std::vector<int> scope;
  size_t length;
  std::pmr::vector<int64_t> bytes;
  std::pmr::vector<uint64_t> ties;

  const int64_t* Bytes(size_t row) const { return bytes.data() + row * length; }
  const uint64_t* Ties(size_t row) const { return ties.data() + row * length; }
};

/*! \brief The best value of an eliminated variable for each assignment of its neighbours. */
struct Decision {
  int variable = 0;
  std::vector<int> scope;
  std::vector<uint16_t> best;
};

class Elimination {
 public:
  Elimination(const PairwiseProblem& problem, size_t max_entries)
      : problem_(problem), max_entries_(max_entries) {
    of_variable_.resize(problem.unary.size());
    for (const PairTable& pair : problem.pairs)
      AddTable({{std::min(pair.first, pair.second), std::max(pair.first, pair.second)}, {}, {}});
  }

  EliminationResult Run(std::vector<int> order) {
    EliminationResult result;
    if (order.empty()) order = FindEliminationOrder(FindNeighbours(problem_));
    for (int v : order) result.weight += EliminateVariable(v);
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

  /*! \brief Return the rows of v in a table of shape [before, v, after]. */
  template <typename Number>
  static std::pmr::vector<Number> MoveFirst(const std::pmr::vector<Number>& entries, size_t values,
                                            size_t after) {
    std::pmr::vector<Number> rows(entries.get_allocator());
    rows.reserve(entries.size());
    for (size_t x = 0; x < values; ++x) {
      for (size_t begin = x * after; begin < entries.size(); begin += values * after)
        rows.insert(rows.end(), entries.begin() + begin, entries.begin() + begin + after);
    }
    return rows;
  }

  Rows MakeRows(Table table, int v) const {
    const auto place = std::find(table.scope.begin(), table.scope.end(), v);
    size_t after = 1;
    for (auto other = place + 1; other != table.scope.end(); ++other) after *= DomainSize(*other);
    const bool is_first = place == table.scope.begin();
    table.scope.erase(place);
    const size_t values = DomainSize(v);
    const size_t length = table.bytes.size() / values;
    if (is_first)
      return {std::move(table.scope), length, std::move(table.bytes), std::move(table.ties)};
    return {std::move(table.scope), length, MoveFirst(table.bytes, values, after),
            MoveFirst(table.ties, values, after)};
  }

  Rows MakeRows(const PairTable& pair, int v) {
    const bool is_first = pair.first == v;
    const size_t length = DomainSize(is_first ? pair.second : pair.first);
    Rows rows{{is_first ? pair.second : pair.first},
              length,
              std::pmr::vector<int64_t>(&memory_),
              std::pmr::vector<uint64_t>(&memory_)};
    rows.bytes.assign(pair.bytes->entries.begin(), pair.bytes->entries.end());
    if (!is_first) rows.bytes = MoveFirst(rows.bytes, DomainSize(v), 1);
    return rows;
  }

  void AddTable(Table table) {
    const int id = static_cast<int>(tables_.size());
    for (int v : table.scope) of_variable_[v].push_back(id);
    tables_.push_back(std::move(table));
  }

  /*! \brief Remove the tables that still hold v. Tables of pairs are copied only now: all together
   * exceed the caches. */
  std::vector<Rows> TakeTables(int v) {
    std::vector<Rows> taken;
    for (int id : of_variable_[v]) {
      if (tables_[id].scope.empty()) continue;
      const bool is_pair = id < static_cast<int>(problem_.pairs.size());
      taken.push_back(is_pair ? MakeRows(problem_.pairs[id], v)
                              : MakeRows(std::move(tables_[id]), v));
      tables_[id] = Table();
    }
    return taken;
  }

  static std::vector<int> JoinScopes(const std::vector<Rows>& tables) {
    std::vector<int> scope;
    for (const Rows& table : tables)
      scope.insert(scope.end(), table.scope.begin(), table.scope.end());
    std::sort(scope.begin(), scope.end());
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    return scope;
  }

  size_t CountEntries(int v, const std::vector<int>& scope) {
    size_t entries = 1;
    for (int other : scope) {
      entries *= DomainSize(other);
      if (entries > max_entries_) {
        throw std::runtime_error(Text(
            "the search needs a table over ", scope.size(), " variables at variable ", v,
            ", of more than ", max_entries_,
            " entries: the graph is too densely connected; tie equal parts or fix some choices"));
      }
    }
    largest_table_ = std::max(largest_table_, entries);
    return entries;
  }

  /*! \brief Eliminate v. Return the remaining constant if v has no neighbours, else 0. */
  Weight EliminateVariable(int v) {
    const std::vector<Rows> tables = TakeTables(v);
    std::vector<int> scope = JoinScopes(tables);
    const size_t entries = CountEntries(v, scope);
    Table joint{std::move(scope), std::pmr::vector<int64_t>(entries, &memory_),
                std::pmr::vector<uint64_t>(entries, &memory_)};
    Decision decision{v, joint.scope, std::vector<uint16_t>(entries)};
    Minimise(v, tables, &joint, &decision.best);
    decisions_.push_back(std::move(decision));
    if (joint.scope.empty()) return MakeWeight(joint.bytes[0], joint.ties[0]);
    AddTable(std::move(joint));
    return 0;
  }

  /*! \brief A loop over all assignments, in blocks of the last variables. In a block, each table
   * has either adjacent entries, one for each assignment, or a single entry. */
  struct Walk {
    std::vector<int> outer;       // variables of the joint scope
    size_t block = 1;             // assignments of the variables in a block
    std::vector<char> has_block;  // by table: true if it holds a variable of the block
    std::vector<std::vector<size_t>>
        strides;  // by table and outer variable; 0 if the table lacks it
  };

  Walk PlanWalk(const std::vector<Rows>& tables, const std::vector<int>& scope) const {
    constexpr size_t kMostOfBlock = 1024;  // sums of a block fit the first cache
    Walk walk{scope, 1, std::vector<char>(tables.size(), 0), {}};
    while (!walk.outer.empty()) {
      const int last = walk.outer.back();
      std::vector<char> has_last;
      for (const Rows& table : tables)
        has_last.push_back(std::binary_search(table.scope.begin(), table.scope.end(), last));
      if (walk.block > 1 &&
          (has_last != walk.has_block || walk.block * DomainSize(last) > kMostOfBlock))
        break;
      walk.has_block = std::move(has_last);
      walk.block *= DomainSize(last);
      walk.outer.pop_back();
    }
    for (size_t t = 0; t < tables.size(); ++t) {
      walk.strides.emplace_back(walk.outer.size(), 0);
      size_t stride = 1;
      for (auto other = tables[t].scope.rbegin(); other != tables[t].scope.rend(); ++other) {
        const auto place = std::lower_bound(walk.outer.begin(), walk.outer.end(), *other);
        if (place != walk.outer.end() && *place == *other)
          walk.strides.back()[place - walk.outer.begin()] = stride;
        stride *= DomainSize(*other);
      }
    }
    return walk;
  }

  void Minimise(int v, const std::vector<Rows>& tables, Table* joint,
                std::vector<uint16_t>* best) const {
    const Walk walk = PlanWalk(tables, joint->scope);
    constexpr size_t kOperations = size_t{1} << 18;  // enough work for a thread
    const size_t grain = kOperations / (walk.block * DomainSize(v) * (tables.size() + 1)) + 1;
    ParallelFor(joint->bytes.size() / walk.block, grain, [&](size_t begin, size_t end) {
      MinimiseBlocks(v, tables, walk, begin, end, joint, best->data());
    });
  }

  void MinimiseBlocks(int v, const std::vector<Rows>& tables, const Walk& walk, size_t begin,
                      size_t end, Table* joint, uint16_t* best) const {
    std::vector<size_t> offsets(tables.size(), 0);
    std::vector<size_t> digits(walk.outer.size(), 0);
    size_t rest = begin;
    for (size_t i = digits.size(); i-- > 0; rest /= DomainSize(walk.outer[i])) {
      digits[i] = rest % DomainSize(walk.outer[i]);
      for (size_t t = 0; t < offsets.size(); ++t) offsets[t] += digits[i] * walk.strides[t][i];
    }
    LeastOfBlock least(walk.block);
    for (size_t at = begin; at < end; ++at) {
      for (size_t x = 0; x < DomainSize(v); ++x) {
        const Weight own = problem_.unary[v][x];
        int64_t bytes = WeightBytes(own);
        auto tie = static_cast<uint64_t>(own);
        for (size_t t = 0; t < tables.size(); ++t) {
          if (walk.has_block[t] != 0) continue;
          bytes += tables[t].Bytes(x)[offsets[t]];
          if (!tables[t].ties.empty()) tie += tables[t].Ties(x)[offsets[t]];
        }
        least.Begin(bytes, tie);
        for (size_t t = 0; t < tables.size(); ++t) {
          if (walk.has_block[t] == 0) continue;
          least.Add(tables[t].Bytes(x) + offsets[t],
                    tables[t].ties.empty() ? nullptr : tables[t].Ties(x) + offsets[t]);
        }
        least.End(x);
      }
      const size_t place = at * walk.block;
      least.Write(joint->bytes.data() + place, joint->ties.data() + place, best + place);
      Advance(walk, &digits, &offsets);
    }
  }

  /*! \brief Advance digits to the next assignment of the outer variables, and the offsets of all
   * tables. */
  void Advance(const Walk& walk, std::vector<size_t>* digits, std::vector<size_t>* offsets) const {
    for (size_t i = walk.outer.size(); i-- > 0;) {
      const bool wraps = ++(*digits)[i] == DomainSize(walk.outer[i]);
      for (size_t t = 0; t < offsets->size(); ++t) {
        (*offsets)[t] += walk.strides[t][i];
        if (wraps) (*offsets)[t] -= walk.strides[t][i] * DomainSize(walk.outer[i]);
      }
      if (!wraps) return;
      (*digits)[i] = 0;
    }
  }

  const PairwiseProblem& problem_;
  size_t max_entries_;
  // A pool, because malloc takes longer and longer to find memory for very many small tables.
  std::pmr::unsynchronized_pool_resource memory_{LargePages()};
  std::vector<Table> tables_;
  std::vector<std::vector<int>> of_variable_;
  std::vector<Decision> decisions_;
  size_t largest_table_ = 0;
};

}  // namespace

std::vector<std::vector<int>> FindNeighbours(const PairwiseProblem& problem) {
  std::vector<std::vector<int>> neighbours(problem.size());
  for (const PairTable& pair : problem.pairs) {
    neighbours[pair.first].push_back(pair.second);
    neighbours[pair.second].push_back(pair.first);
  }
  for (std::vector<int>& list : neighbours) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return neighbours;
}

EliminationResult Eliminate(const PairwiseProblem& problem, size_t max_entries,
                            std::vector<int> order) {
  return Elimination(problem, max_entries).Run(std::move(order));
}

}  // namespace tofu
