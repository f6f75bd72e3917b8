/*!
 * \file tables.h
 * \brief Cost tables of incidences: bytes for each pair of an operator's choice and a tensor's
 * layout, computed once per signature.
 *
 * Most incidences of a deep network repeat: the same access to a tensor of the same shape, after
 * the same choices. Everything that the bytes depend on is spelled out in a flat signature, and
 * equal signatures share one table.
 */
#ifndef TOFU_CORE_COST_TABLES_H_
#define TOFU_CORE_COST_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/numbering.h"
#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief Choices to tabulate, each one value per step of the grid. `id` is equal for equal lists
 * (CostTables::Intern). */
struct ChoiceList {
  int id = -1;
  std::vector<std::vector<int>> choices;
};

class CostTables {
 public:
  explicit CostTables(const Graph& graph);

  const std::vector<Incidence>& incidences() const { return incidences_; }
  size_t num_tables() const { return tables_.size(); }

  /*! \brief A number that is equal for incidences whose tables are. */
  int signature(size_t incidence) const { return signatures_[incidence]; }

  /*! \brief Starts over for another grid; ids of lists stay valid. */
  void SetGrid(WorkerGrid grid);

  ChoiceList Intern(std::vector<std::vector<int>> choices);

  /*!
   * \brief bytes[i * layouts.size() + j] of an incidence at the operator's choice i and the
   * tensor's layout j.
   *
   * The reference holds until the next SetGrid.
   */
  const std::vector<int64_t>& Get(size_t incidence, const ChoiceList& operator_choices,
                                  const ChoiceList& layouts);

  /*! \brief A table to come, as the arguments of Get. */
  struct Request {
    size_t incidence;
    const ChoiceList* operator_choices;
    const ChoiceList* layouts;
  };

  /*! \brief The entries of the tables of all requests that are not known yet. */
  size_t CountMissingEntries(const std::vector<Request>& requests) const;

  /*!
   * \brief Computes the tables of all requests that are not known yet, on as many threads as there
   * are cores.
   *
   * `pause` is called between batches, on the calling thread; an exception from it ends the work;
   * start over with SetGrid after it.
   */
  void Prepare(const std::vector<Request>& requests, const std::function<void()>& pause);

 private:
  std::string KeyOf(const Request& request) const;
  std::vector<int64_t> Compute(const Incidence& incidence, const ChoiceList& operator_choices,
                               const ChoiceList& layouts) const;

  const Graph& graph_;
  WorkerGrid grid_;
  std::vector<Incidence> incidences_;
  std::vector<int> signatures_;  // by incidence
  Numbering numbers_;            // of signatures and of lists of choices
  std::unordered_map<std::string, std::vector<int64_t>> tables_;
};

}  // namespace tofu

#endif  // TOFU_CORE_COST_TABLES_H_
