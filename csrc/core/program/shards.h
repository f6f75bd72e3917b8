/*!
 * \file shards.h
 * \brief The shards of tensors in a program. A shard is a variable, an output of an operator's
 * copy, or a fetch that assembles it.
 */
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/cost/cost.h"
#include "core/geometry/box_index.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"
#include "core/program/fetch_pieces.h"
#include "core/program/program_builder.h"

namespace tofu {

/*! \brief One output of an operator on every worker. */
struct ProducedOutput {
  int op = -1;
  int index = 0;
  std::vector<Entry> entries;      // by worker; node -1 if its region is empty
  const Boxes* regions = nullptr;  // of the entries; elements outside the tensor are undefined
};

/*! \brief Return the incidence of an operator and an output. */
inline Incidence MakeWrite(int op, const Output& output) {
  Incidence write;
  write.is_write = true;
  write.op = op;
  write.tensor = output.tensor;
  write.write = &output;
  return write;
}

/*! \brief Return numbers that are equal for incidences that access equal regions, by the choice of
 * their operator and the layout of their tensor. */
std::vector<int64_t> DescribePlaced(const Graph& graph, const Incidence& incidence,
                                    const std::vector<int>& choice, const std::vector<int>& layout);

/*! \brief The workers that a fetch reads from, once for each read. Outlines need only these. They
 * are remembered, because many fetches read equal regions of tensors in one layout. */
struct Owners {
  bool is_known = false;
  std::vector<int> workers;
};

class TensorShards {
 public:
  TensorShards(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
               NodeSink* builder)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        builder_(builder),
        tensors_(graph.num_tensors()) {}

  /*! \brief Return the boxes of a tensor's shards, in the layout of the plan. */
  const Boxes& ShardBoxes(int tensor) { return Place(tensor).layout->shards; }

  /*! \brief Return the entry of a worker's shard. Variables are added when they are first used. */
  Entry Shard(int tensor, int worker);

  /*! \brief Fetch a region from shards. Elements outside the tensor hold `fill`. `owners` are the
   * owners of the region. */
  Entry FetchRegion(int tensor, int worker, int phase, const Interval* region, double fill,
                    Owners* owners);

  /*! \brief Add a region to a fetch. `moved` is its place, in the dimensions of the movement. */
  void AddRegion(int tensor, int worker, const Box& moved, const Movement& movement,
                 FetchPieces* pieces);

  /*! \brief Bring an output into its tensor's layout on every worker. */
  void Assemble(const ProducedOutput& produced);

 private:
  /*! \brief Shards of all tensors of one shape in one layout. */
  struct Layout {
    Boxes shards;
    BoxIndex index;            // of the shards
    Boxes own;                 // the parts that other workers read (OwnBoxes)
    std::vector<int> replica;  // workers with equal numbers hold one copy together
  };

  struct Placed {
    const Layout* layout = nullptr;  // null before first use
    std::vector<Entry> entries;      // by worker; node -1 before first use
  };

  /*! \brief The workers' parts in bringing an output into a layout. Outputs with equal regions
   * share it. */
  struct Assembly {
    PlacedAccess access;
    BoxIndex index;  // of the written regions
    PlacedLayout layout;
    bool is_scattered = false;
    std::vector<Owners> holders;  // by worker: of the parts of its shard
    std::vector<Owners> joined;   // by worker: of the parts that it joins
  };

  Placed& Place(int tensor);
  const Layout& FindLayout(int tensor);
  Assembly& FindAssembly(const ProducedOutput& produced);
  template <typename Visit>
  void ForEachPart(int tensor, int worker, const Box& moved, const Movement& movement,
                   const Visit& visit);
  Entry Gather(const ProducedOutput& produced, Assembly* assembly, int worker, const Interval* box);
  Entry JoinParts(int tensor, int phase, int worker, Assembly* assembly,
                  const std::vector<Entry>& parts);

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  NodeSink* builder_;
  std::vector<Placed> tensors_;
  std::map<std::pair<std::vector<int64_t>, std::vector<int>>, Layout>
      layouts_;  // by shape and layout
  std::map<std::vector<int64_t>, Assembly> assemblies_;
};

}  // namespace tofu
