/*!
 * \file emit.cc
 * \brief The emission of a program, operator by operator.
 */
#include "emit.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "canonical.h"
#include "pieces.h"

namespace tofu {

namespace {

/*! \brief Where a tensor's shards are. */
struct PlacedTensor {
  bool is_placed = false;
  Boxes shards;
  std::vector<int>
      replica;  // workers of equal numbers hold one whole copy of the tensor between them
  std::vector<Entry> entries;  // by worker; node -1 before first use
};

/*! \brief One worker's fetch of a region, to be found again by the other operators of its group and
 * phase. */
struct SharedFetch {
  std::vector<Interval> region;
  double fill;
  bool is_zero;
  Entry entry;
};

class Emitter {
 public:
  Emitter(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
          const std::vector<int>& phases, const std::vector<OutputRequest>& outputs)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        outputs_(outputs),
        tensors_(graph.num_tensors()),
        is_used_(graph.num_tensors(), 0),
        last_copy_(grid.num_workers(), -1),
        unordered_fetches_(grid.num_workers()),
        requested_(outputs.size()),
        requests_of_(graph.num_tensors()) {
    CheckAssignment(graph, grid, assignment);
    for (int phase : phases) has_phase_.at(CheckPhase(phase)) = true;
    program_.num_workers = grid.num_workers();
    FindUsedTensors();
  }

  Program Run() {
    for (int id = 0; id < graph_.num_operators(); ++id) {
      if (IsEmitted(id)) EmitOperator(id);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (requested_[i].empty()) EmitRequest(i);
      program_.outputs.insert(program_.outputs.end(), requested_[i].begin(), requested_[i].end());
    }
    return std::move(program_);
  }

 private:
  static int CheckPhase(int phase) {
    if (phase < 0 || phase > 2)
      throw std::invalid_argument("phase " + std::to_string(phase) + ": phases are 0, 1 and 2");
    return phase;
  }

  bool IsEmitted(int op) const {
    return has_phase_[graph_.op(op).phase] && graph_.op(op).follows_tensor < 0;
  }

  void FindUsedTensors() {
    for (int op = 0; op < graph_.num_operators(); ++op) {
      if (!IsEmitted(op)) continue;
      for (const Input& input : graph_.op(op).inputs)
        Use(input.tensor, "operator " + std::to_string(op));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const OutputRequest& request = outputs_[i];
      Use(request.tensor, "the list of outputs");
      requests_of_[request.tensor].push_back(static_cast<int>(i));
      if (!request.has_layout) continue;
      const std::string subject =
          "the requested layout of tensor " + std::to_string(request.tensor);
      if (static_cast<int>(request.layout.size()) != grid_.num_steps()) {
        throw std::invalid_argument(subject + " has " + std::to_string(request.layout.size()) +
                                    " choices for " + std::to_string(grid_.num_steps()) + " steps");
      }
      CheckChoice(subject, graph_.tensor(request.tensor).shape, grid_, request.layout);
    }
  }

  void Use(int tensor, const std::string& user) {
    const int producer = graph_.tensor(tensor).producer;
    if (producer >= 0 && !IsEmitted(producer)) {
      throw std::invalid_argument("tensor " + std::to_string(tensor) + " is used by " + user +
                                  ", but operator " + std::to_string(producer) + " of phase " +
                                  std::to_string(graph_.op(producer).phase) +
                                  ", which produces it, is not among the phases asked for");
    }
    is_used_[tensor] = true;
  }

  int AddNode(ProgramNode node) {
    program_.nodes.push_back(std::move(node));
    return static_cast<int>(program_.nodes.size()) - 1;
  }

  ProgramNode MakeNode(NodeKind kind, int id, int worker, int phase) const {
    ProgramNode node;
    node.kind = kind;
    node.id = id;
    node.worker = worker;
    node.phase = phase;
    return node;
  }

  static bool IsInput(const ProgramNode& node, int64_t candidate) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Entry& entry) { return entry.node == candidate; });
  }

  /*! \brief The node runs after the worker's latest copy; data dependencies say so by themselves.
   */
  void OrderAfterLastCopy(ProgramNode* node) const {
    const int64_t last = last_copy_[node->worker];
    if (last >= 0 && !IsInput(*node, last)) node->control_deps.push_back(last);
  }

  Entry AddFetch(int tensor, int worker, int phase, double fill, const FetchPieces& pieces) {
    ProgramNode node = MakeNode(NodeKind::kFetch, tensor, worker, phase);
    node.set_fill(fill);
    pieces.WriteTo(&node);
    OrderAfterLastCopy(&node);
    return {AddNode(std::move(node)), 0};
  }

  static std::vector<int64_t> ExtentsOf(const Interval* box, int rank) {
    std::vector<int64_t> extents(rank);
    for (int d = 0; d < rank; ++d) extents[d] = box[d].extent();
    return extents;
  }

  PlacedTensor& Place(int id) {
    PlacedTensor& placed = tensors_[id];
    if (placed.is_placed) return placed;
    placed.is_placed = true;
    const std::vector<int>& layout = assignment_.tensors[id];
    placed.shards = SplitBoxes(graph_.tensor(id).shape, grid_, layout);
    placed.replica = ReplicaNumbers(grid_, layout);
    placed.entries.resize(grid_.num_workers());
    return placed;
  }

  /*! \brief The digits of the replicated steps, as one number for each worker. */
  static std::vector<int> ReplicaNumbers(const WorkerGrid& grid, const std::vector<int>& layout) {
    std::vector<int> numbers(grid.num_workers(), 0);
    for (int step = 0; step < grid.num_steps(); ++step) {
      if (layout[step] != kReplicated) continue;
      for (int worker = 0; worker < grid.num_workers(); ++worker) {
        numbers[worker] =
            numbers[worker] * static_cast<int>(grid.factor(step)) + grid.digit(worker, step);
      }
    }
    return numbers;
  }

  /*! \brief The entry that holds the worker's shard; variables come into being here. */
  Entry Shard(int tensor, int worker) {
    PlacedTensor& placed = Place(tensor);
    Entry& entry = placed.entries[worker];
    if (entry.node < 0) {
      ProgramNode node = MakeNode(NodeKind::kVariable, tensor, worker, 0);
      node.shapes = {ExtentsOf(placed.shards[worker], placed.shards.rank())};
      entry = {AddNode(std::move(node)), 0};
    }
    return entry;
  }

  Entry FetchRegion(int tensor, int worker, int phase, const Interval* region, double fill) {
    PlacedTensor& placed = Place(tensor);
    const int rank = placed.shards.rank();
    FetchPieces pieces(region, rank);
    std::vector<Interval> box(rank);
    for (int owner = 0; owner < grid_.num_workers(); ++owner) {
      if (placed.replica[owner] != placed.replica[worker]) continue;
      for (int d = 0; d < rank; ++d) box[d] = Intersect(region[d], placed.shards[owner][d]);
      if (!IsEmptyBox(box.data(), rank))
        pieces.Add(box.data(), Shard(tensor, owner), placed.shards[owner]);
    }
    return AddFetch(tensor, worker, phase, fill, pieces);
  }

  Entry EmitInput(int op_id, const Input& input, const Interval* region, int worker) {
    const Operator& op = graph_.op(op_id);
    const Boxes& shards = Place(input.tensor).shards;
    const int rank = shards.rank();
    const bool is_zero = IsZeroAddend(input, grid_, assignment_.operators[op_id], worker);
    const bool is_shard = IsEqualBox(region, shards[worker], rank);
    if (is_shard && !is_zero) return Shard(input.tensor, worker);
    if (input.is_held && !is_shard) {
      throw std::invalid_argument("operator " + std::to_string(op_id) + " writes tensor " +
                                  std::to_string(input.tensor) +
                                  " in place: each worker's region must be exactly its shard");
    }
    std::vector<SharedFetch>& shared = shared_[SharingKey(op, input.tensor, worker)];
    for (const SharedFetch& other : shared) {
      if (other.is_zero == is_zero && IsSameRegion(other.region.data(), other.fill, region,
                                                   input.fill, graph_.tensor(input.tensor).shape)) {
        return other.entry;
      }
    }
    const Entry entry = is_zero
                            ? AddFetch(input.tensor, worker, op.phase, 0, FetchPieces(region, rank))
                            : FetchRegion(input.tensor, worker, op.phase, region, input.fill);
    shared.push_back({std::vector<Interval>(region, region + rank), input.fill, is_zero, entry});
    return entry;
  }

  struct FetchKey {
    int64_t group;
    int phase, tensor, worker;
    bool operator==(const FetchKey& other) const {
      return group == other.group && phase == other.phase && tensor == other.tensor &&
             worker == other.worker;
    }
  };
  struct FetchKeyHash {
    size_t operator()(const FetchKey& key) const {
      const uint64_t where =
          (static_cast<uint64_t>(key.tensor) << 32) | static_cast<uint64_t>(key.worker);
      return HashCombine(
          HashCombine(static_cast<uint64_t>(key.group), static_cast<uint64_t>(key.phase)), where);
    }
  };

  static FetchKey SharingKey(const Operator& op, int tensor, int worker) {
    return {op.group, op.phase, tensor, worker};
  }

  void EmitOperator(int id) {
    const Operator& op = graph_.op(id);
    const std::vector<int>& choice = assignment_.operators[id];
    const Boxes axis_boxes = SplitBoxes(op.axis_extents, grid_, choice);
    std::vector<Boxes> needed;
    std::vector<Boxes> produced;
    for (const Input& input : op.inputs)
      needed.push_back(RegionsOf(input.rows, input.tensor, axis_boxes, choice));
    for (const Output& output : op.outputs)
      produced.push_back(RegionsOf(output.rows, output.tensor, axis_boxes, choice));
    std::vector<int> copies;
    for (int worker = 0; worker < grid_.num_workers(); ++worker)
      copies.push_back(EmitCopy(id, worker, needed, produced));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (!is_used_[op.outputs[i].tensor]) continue;
      EmitShards(id, i, copies, produced[i]);
      for (int request : requests_of_[op.outputs[i].tensor]) EmitRequest(request);
    }
  }

  Boxes RegionsOf(const std::vector<Row>& rows, int tensor, const Boxes& axis_boxes,
                  const std::vector<int>& choice) const {
    return ComputeRegions(rows, graph_.tensor(tensor).shape, axis_boxes, choice);
  }

  int EmitCopy(int id, int worker, const std::vector<Boxes>& needed,
               const std::vector<Boxes>& produced) {
    const Operator& op = graph_.op(id);
    ProgramNode node = MakeNode(NodeKind::kOperator, id, worker, op.phase);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      node.inputs.push_back(EmitInput(id, op.inputs[i], needed[i][worker], worker));
    for (const Boxes& regions : produced)
      node.shapes.push_back(ExtentsOf(regions[worker], regions.rank()));
    OrderAfterLastCopy(&node);
    for (int fetch : unordered_fetches_[worker]) {
      std::vector<int64_t>& deps = node.control_deps;
      if (!IsInput(node, fetch) && std::find(deps.begin(), deps.end(), fetch) == deps.end())
        deps.push_back(fetch);
    }
    unordered_fetches_[worker].clear();
    last_copy_[worker] = AddNode(std::move(node));
    return last_copy_[worker];
  }

  /*! \brief What the copies of one operator left of one output: everything that is needed to gather
   * boxes of it. */
  struct Produced {
    int tensor;
    int output;
    int phase;
    const std::vector<int>& copies;
    const Boxes& regions;
    Boxes clipped;
    std::vector<int> replica;
  };

  /*! \brief `box` of an output on one worker, every holder's part of it summed; the copy's own
   * entry where that is all. */
  Entry Gather(const Produced& produced, int worker, const Interval* box) {
    const int rank = produced.regions.rank();
    const std::vector<int>& replica = produced.replica;
    FetchPieces pieces(box, rank);
    std::vector<Interval> overlap(rank);
    bool is_own = IsEqualBox(box, produced.regions[worker], rank);
    for (int holder = 0; holder < grid_.num_workers(); ++holder) {
      if (replica[holder] != replica[worker]) continue;
      for (int d = 0; d < rank; ++d) overlap[d] = Intersect(box[d], produced.clipped[holder][d]);
      if (IsEmptyBox(overlap.data(), rank)) continue;
      is_own = is_own && holder == worker;
      pieces.Add(overlap.data(), {produced.copies[holder], produced.output},
                 produced.regions[holder]);
    }
    if (is_own) return {produced.copies[worker], produced.output};
    return AddFetch(produced.tensor, worker, produced.phase, 0, pieces);
  }

  void EmitShards(int id, size_t output_index, const std::vector<int>& copies,
                  const Boxes& regions) {
    const Output& output = graph_.op(id).outputs[output_index];
    const std::vector<int>& choice = assignment_.operators[id];
    const Tensor& tensor = graph_.tensor(output.tensor);
    const Produced produced{output.tensor,
                            static_cast<int>(output_index),
                            graph_.op(id).phase,
                            copies,
                            regions,
                            ClipBoxes(regions, tensor.shape),
                            tofu::ReplicaNumbers(output, grid_, choice)};
    PlacedTensor& placed = Place(output.tensor);
    const PlacedLayout layout = PlaceLayout(tensor, grid_, assignment_.tensors[output.tensor]);
    if (layout.can_scatter && IsPartialResult(output, choice)) {
      ReduceAndGather(produced, layout, &placed);
    } else {
      for (int worker = 0; worker < grid_.num_workers(); ++worker) {
        placed.entries[worker] = Gather(produced, worker, placed.shards[worker]);
      }
    }
    for (int worker = 0; worker < grid_.num_workers(); ++worker)
      KeepOrdered(worker, placed.entries[worker]);
  }

  /*! \brief Every worker sums its part of the shard, then puts the shard together from the parts of
   * the other copies. */
  void ReduceAndGather(const Produced& produced, const PlacedLayout& layout, PlacedTensor* placed) {
    const int rank = layout.shards.rank();
    std::vector<Entry> parts(grid_.num_workers());
    for (int worker = 0; worker < grid_.num_workers(); ++worker) {
      const Interval* part = layout.scattered[worker];
      if (!IsEmptyBox(part, rank)) parts[worker] = Gather(produced, worker, part);
    }
    for (int worker = 0; worker < grid_.num_workers(); ++worker) {
      const Interval* shard = layout.shards[worker];
      if (IsEqualBox(layout.scattered[worker], shard, rank)) {
        placed->entries[worker] = parts[worker];
        continue;
      }
      FetchPieces pieces(shard, rank);
      for (int other = 0; other < grid_.num_workers(); ++other) {
        if (parts[other].node < 0 || !IsEqualBox(layout.shards[other], shard, rank)) continue;
        pieces.Add(layout.scattered[other], parts[other], layout.scattered[other]);
      }
      placed->entries[worker] = AddFetch(produced.tensor, worker, produced.phase, 0, pieces);
    }
  }

  /*! \brief The worker's next copy waits for this entry if it is a fetch. */
  void KeepOrdered(int worker, const Entry& entry) {
    if (program_.nodes[entry.node].kind == NodeKind::kFetch)
      unordered_fetches_[worker].push_back(static_cast<int>(entry.node));
  }

  void EmitRequest(size_t index) {
    constexpr int kUpdatePhase = 2;
    const OutputRequest& request = outputs_[index];
    const Boxes shards = Place(request.tensor).shards;
    const Boxes wanted =
        request.has_layout ? SplitBoxes(graph_.tensor(request.tensor).shape, grid_, request.layout)
                           : shards;
    for (int worker = 0; worker < grid_.num_workers(); ++worker) {
      const bool is_shard = IsEqualBox(wanted[worker], shards[worker], shards.rank());
      requested_[index].push_back(
          is_shard ? Shard(request.tensor, worker)
                   : FetchRegion(request.tensor, worker, kUpdatePhase, wanted[worker], 0));
      KeepOrdered(worker, requested_[index].back());
    }
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  const std::vector<OutputRequest>& outputs_;
  std::array<bool, 3> has_phase_{};
  Program program_;
  std::vector<PlacedTensor> tensors_;
  std::vector<char> is_used_;
  std::vector<int> last_copy_;  // by worker, -1 before the first
  std::vector<std::vector<int>>
      unordered_fetches_;  // by worker: fetches that its next copy has to wait for
  std::unordered_map<FetchKey, std::vector<SharedFetch>, FetchKeyHash> shared_;
  std::vector<std::vector<Entry>> requested_;  // by output request, empty until emitted
  std::vector<std::vector<int>> requests_of_;  // by tensor
};

}  // namespace

Program EmitProgram(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                    const std::vector<int>& phases, const std::vector<OutputRequest>& outputs) {
  return Emitter(graph, grid, assignment, phases, outputs).Run();
}

std::vector<int64_t> CountTraffic(const Graph& graph, const Program& program) {
  const int64_t workers = program.num_workers;
  std::vector<int64_t> bytes(workers * workers, 0);
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kFetch) continue;
    const int64_t element_bytes = graph.tensor(static_cast<int>(node.id)).element_bytes;
    for (const Piece& piece : node.pieces) {
      int64_t cells = 1;
      for (int64_t extent : piece.extent) cells *= extent;
      for (const Source& source : piece.sources) {
        const int64_t owner = program.nodes[node.inputs[source.input].node].worker;
        if (owner != node.worker) bytes[node.worker * workers + owner] += cells * element_bytes;
      }
    }
  }
  return bytes;
}

}  // namespace tofu
