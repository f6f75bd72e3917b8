/*!
 * \file shards.h
 * \brief The shards of tensors in a program. A shard is a variable, an output of an operator's
 * copy, or a fetch that assembles it.
 */
#ifndef TOFU_CORE_PROGRAM_SHARDS_H_
#define TOFU_CORE_PROGRAM_SHARDS_H_

#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"
#include "core/program/fetch_pieces.h"
#include "core/program/program_builder.h"

namespace tofu {

/*! \brief One output of an operator on every worker. */
struct ProducedOutput {
  int op = -1;
  int index = 0;
  std::vector<Entry> entries;  // by worker; node -1 if its region is empty
  Boxes regions;               // region of each entry; elements outside the tensor are undefined
};

class TensorShards {
 public:
  TensorShards(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
               ProgramBuilder* builder)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        builder_(builder),
        tensors_(graph.num_tensors()) {}

  /*! \brief Return the boxes of a tensor's shards, in the layout of the plan. */
  const Boxes& ShardBoxes(int tensor) { return Place(tensor).shards; }

  /*! \brief Return the entry of a worker's shard. Variables are added when they are first used. */
  Entry Shard(int tensor, int worker);

  /*! \brief Fetch a region from shards. Elements outside the tensor hold `fill`. */
  Entry FetchRegion(int tensor, int worker, int phase, const Interval* region, double fill);

  /*! \brief Add a region to a fetch. `moved` is its place, in the dimensions of the movement. */
  void AddRegion(int tensor, int worker, const Box& moved, const Movement& movement,
                 FetchPieces* pieces);

  /*! \brief Bring an output into its tensor's layout on every worker. */
  void Assemble(const ProducedOutput& produced);

 private:
  struct Placed {
    bool is_placed = false;
    Boxes shards;
    Boxes own;                   // the parts that other workers read (OwnBoxes)
    std::vector<int> replica;    // workers with equal numbers hold one copy together
    std::vector<Entry> entries;  // by worker; node -1 before first use
  };

  Placed& Place(int tensor);
  Entry Gather(const ProducedOutput& produced, const PlacedAccess& access, int worker,
               const Interval* box);
  Entry JoinParts(int tensor, int phase, int worker, const PlacedLayout& layout,
                  const std::vector<Entry>& parts);

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  ProgramBuilder* builder_;
  std::vector<Placed> tensors_;
};

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_SHARDS_H_
