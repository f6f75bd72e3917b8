/*!
 * \file copy_regions.h
 * \brief Regions that the copies of operators read and write.
 */
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"
#include "core/program/shards.h"

namespace tofu {

/*! \brief The regions that the copies of an operator read of an input, and where they are. */
struct Reading {
  Boxes needed;
  std::vector<char> is_zero;   // by worker: true if it must not add the input
  std::vector<Owners> owners;  // by worker
};

/*! \brief Finds the regions of a plan. Equal accesses with equal choices share them. */
class CopyRegions {
 public:
  CopyRegions(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment)
      : graph_(graph), grid_(grid), assignment_(assignment) {}

  /*! \brief Return the reading of an input. It is shared with inputs in the same layout only. */
  Reading& Read(int op, const Input& input);

  /*! \brief Return the regions that the copies of an operator write. */
  const Boxes& Written(int op, const Output& output);

 private:
  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  std::map<std::vector<int64_t>, Reading> readings_;
  std::map<std::vector<int64_t>, Boxes> written_;
};

}  // namespace tofu
