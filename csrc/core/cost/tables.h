/*!
 * \file tables.h
 * \brief Tables of the cost of an incidence (cost.h) for each pair of an operator's choice and a
 * tensor's layout.
 *
 * Most incidences of a deep network repeat: they are equal accesses to tensors of equal shapes. A
 * signature is everything that the bytes depend on. Incidences with equal signatures share one
 * table.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/numbering.h"
#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

/*! \brief The choices of an operator or layouts of a tensor to tabulate, each with one value per
 * round. CostTables::Intern gives equal lists equal ids. */
struct ChoiceList {
  int id = -1;
  std::vector<std::vector<int>> choices;
};

/*! \brief A function that returns the table of an incidence: the cost of choice i and layout j at
 * [i * layouts.size() + j]. */
using Tabulate = std::function<std::vector<int64_t>(
    const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
    const std::vector<std::vector<int>>& choices, const std::vector<std::vector<int>>& layouts)>;

/*! \brief Return the table of an incidence with IncidenceBytes. */
std::vector<int64_t> TabulateIncidence(const Graph& graph, const Incidence& incidence,
                                       const WorkerGrid& grid,
                                       const std::vector<std::vector<int>>& choices,
                                       const std::vector<std::vector<int>>& layouts);

/*! \brief The incidences of a graph, which must stay alive. */
struct NumberedIncidences {
  explicit NumberedIncidences(const Graph& graph);

  const Graph& graph;
  std::vector<Incidence> incidences;
  std::vector<int> signatures;  // by incidence: a number that is equal for equal signatures
};

using SharedIncidences = std::shared_ptr<const NumberedIncidences>;

class CostTables {
 public:
  CostTables(SharedIncidences incidences, WorkerGrid grid, Tabulate tabulate = TabulateIncidence);

  const std::vector<Incidence>& incidences() const { return numbered_->incidences; }
  size_t num_tables() const { return tables_.size(); }

  /*! \brief Return a number that is equal for incidences with equal tables. */
  int signature(size_t incidence) const { return numbered_->signatures[incidence]; }

  ChoiceList Intern(std::vector<std::vector<int>> choices);

  /*! \brief Return the table of an incidence, which is prepared: bytes[i * layouts.size() + j] for
   * choice i and layout j. */
  const std::vector<int64_t>& Get(size_t incidence, const ChoiceList& operator_choices,
                                  const ChoiceList& layouts) const;

  /*! \brief The arguments of Get. */
  struct Request {
    size_t incidence;
    const ChoiceList* operator_choices;
    const ChoiceList* layouts;
  };

  /*!
   * \brief Compute the requested tables, on all cores. Return the number of their entries.
   *
   * `pause` is called between batches, on the calling thread. An exception from it ends the work.
   */
  size_t Prepare(const std::vector<Request>& requests, const std::function<void()>& pause);

 private:
  std::string KeyOf(const Request& request) const;

  SharedIncidences numbered_;
  Tabulate tabulate_;
  WorkerGrid grid_;
  Numbering lists_;  // numbers of lists of choices
  std::unordered_map<std::string, std::vector<int64_t>> tables_;
};

}  // namespace tofu
