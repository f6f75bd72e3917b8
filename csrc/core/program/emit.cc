/*!
 * \file emit.cc
 */
#include "core/program/emit.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/phase.h"
#include "core/base/text.h"
#include "core/cost/sharing.h"
#include "core/program/copy_regions.h"
#include "core/program/fetch_pieces.h"
#include "core/program/program_builder.h"
#include "core/program/shards.h"

namespace tofu {

namespace {

/*! \brief A worker's fetch of a region, which other operators may share. */
struct SharedFetch {
  const Interval* region;
  double fill;
  bool is_zero;
  Entry entry;
};

// Stands for all readers of a tensor whose fetched regions are kept.
constexpr int kAllReaders = -1;

/*! \brief Writes the program of a plan. `readings` has an operator's readings by input. */
class Emitter {
 public:
  Emitter(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
          const std::vector<int>& phases, const std::vector<OutputRequest>& outputs,
          NodeSink* builder)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        outputs_(outputs),
        builder_(*builder),
        shards_(graph, grid, assignment, builder),
        regions_(graph, grid, assignment),
        is_used_(graph.num_tensors(), 0),
        request_entries_(outputs.size()),
        requests_by_tensor_(graph.num_tensors()) {
    CheckAssignment(graph, grid, assignment);
    sharers_ = FindSharers(graph, grid, assignment);
    for (int phase : phases) has_phase_.at(CheckPhase(phase)) = true;
    FindUsedTensors();
  }

  void Run() {
    for (int id = 0; id < graph_.num_operators(); ++id) {
      if (IsEmitted(id) && HasEffect(id)) EmitOperator(id);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (request_entries_[i].empty()) EmitRequest(i);
      for (const Entry& entry : request_entries_[i]) builder_.AddOutput(entry);
    }
  }

 private:
  static int CheckPhase(int phase) {
    if (!IsPhase(phase)) {
      Refuse("phase ", phase, ": phases are 0, 1 and 2");
    }
    return phase;
  }

  bool IsEmitted(int op) const {
    return has_phase_[graph_.op(op).phase] && graph_.op(op).follows_tensor < 0;
  }

  /*! \brief Return true if an output of the operator is used, or if it reads an input. */
  bool HasEffect(int id) const {
    const Operator& op = graph_.op(id);
    return std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](const Output& output) { return is_used_[output.tensor]; }) ||
           std::any_of(op.inputs.begin(), op.inputs.end(),
                       [](const Input& input) { return input.is_read; });
  }

  void FindUsedTensors() {
    for (int op = 0; op < graph_.num_operators(); ++op) {
      if (!IsEmitted(op)) continue;
      for (const Input& input : graph_.op(op).inputs) {
        if (input.is_read) MarkUsed(input.tensor, "operator " + std::to_string(op));
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      MarkUsed(outputs_[i].tensor, "the list of outputs");
      requests_by_tensor_[outputs_[i].tensor].push_back(static_cast<int>(i));
      if (outputs_[i].has_layout) CheckRequestedLayout(outputs_[i]);
    }
  }

  void CheckRequestedLayout(const OutputRequest& request) const {
    const std::string subject = "the requested layout of tensor " + std::to_string(request.tensor);
    if (static_cast<int>(request.layout.size()) != grid_.num_rounds()) {
      Refuse(subject, " has ", request.layout.size(), " choices for ", grid_.num_rounds(),
             " rounds");
    }
    // Overlapping parts were checked for the tensor that has this layout in the plan.
    CheckChoice(subject, graph_.tensor(request.tensor).shape, grid_, request.layout, {});
  }

  void MarkUsed(int tensor, const std::string& user) {
    const int producer = graph_.tensor(tensor).producer;
    if (producer >= 0 && !IsEmitted(producer)) {
      Refuse("tensor ", tensor, " is used by ", user, ", but operator ", producer, " of phase ",
             graph_.op(producer).phase, ", which produces it, is not among the phases asked for");
    }
    is_used_[tensor] = true;
  }

  void EmitOperator(int id) {
    const Operator& op = graph_.op(id);
    const std::vector<int>& choice = assignment_.operators[id];
    std::vector<Reading*> readings;
    for (const Input& input : op.inputs) readings.push_back(&regions_.Read(id, input));
    std::vector<ProducedOutput> produced(op.outputs.size());
    for (size_t i = 0; i < produced.size(); ++i) {
      produced[i].op = id;
      produced[i].index = static_cast<int>(i);
      produced[i].regions = &regions_.Written(id, op.outputs[i]);
    }
    for (int worker = 0; worker < grid_.num_workers(); ++worker) {
      if (op.IsFetched(choice)) {
        EmitFetches(id, worker, readings, &produced);
      } else {
        EmitCopy(id, worker, readings, &produced);
      }
    }
    for (size_t i = 0; i < produced.size(); ++i) {
      const int tensor = op.outputs[i].tensor;
      if (is_used_[tensor]) shards_.Assemble(produced[i]);
      for (int request : requests_by_tensor_[tensor]) EmitRequest(request);
    }
  }

  void EmitCopy(int id, int worker, const std::vector<Reading*>& readings,
                std::vector<ProducedOutput>* produced) {
    const Operator& op = graph_.op(id);
    std::vector<Entry> inputs;
    std::vector<BoxView> outputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(EmitInput(id, i, readings[i], worker));
    }
    for (const ProducedOutput& output : *produced) {
      outputs.push_back({(*output.regions)[worker], output.regions->rank()});
    }
    const Entry copy = builder_.AddCopy(id, worker, op.phase, std::move(inputs), outputs);
    for (ProducedOutput& output : *produced) output.entries.push_back({copy.node, output.index});
  }

  /*! \brief Emit a fetch of each output, in place of the worker's copy of an operator that only
   * moves elements. */
  void EmitFetches(int id, int worker, const std::vector<Reading*>& readings,
                   std::vector<ProducedOutput>* produced) {
    const Operator& op = graph_.op(id);
    std::vector<Entry> fetched_inputs(op.inputs.size());  // node -1: the input is read from shards
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Boxes& needed = readings[i]->needed;
      const Interval* part = (*produced->front().regions)[worker];
      if (!op.inputs[i].is_read || IsEmptyBox(needed[worker], needed.rank()) ||
          IsReadFromShards(id, i, needed[worker], part, worker)) {
        continue;
      }
      fetched_inputs[i] = EmitInput(id, i, readings[i], worker);
    }
    for (ProducedOutput& output : *produced) {
      output.entries.push_back(EmitOutputFetch(op, worker, readings, fetched_inputs, output));
    }
  }

  /*! \brief Return true if the outputs' fetches can read an input from shards. Its region is the
   * worker's shard, or each element of the region is used once. */
  bool IsReadFromShards(int id, size_t position, const Interval* region, const Interval* part,
                        int worker) {
    const Operator& op = graph_.op(id);
    const Input& input = op.inputs[position];
    const Boxes& shards = shards_.ShardBoxes(input.tensor);
    if (IsEqualBox(region, shards[worker], shards.rank())) return true;
    if (op.outputs.size() > 1 || CountSharedReads(id, position) > 1) return false;
    const Movement movement = FindMovement(input, op.outputs.front());
    const Box moved_region = movement.Move(region);
    const Box widened_part = movement.Widen(part);
    for (int d = 0; d < movement.rank(); ++d) {
      if (!Contains(widened_part[d], moved_region[d])) return false;
    }
    return true;
  }

  /*! \brief Return a number that is equal for reads that share fetches. */
  int SharersOf(int op, size_t position) const {
    const bool is_kept = assignment_.IsKept(graph_.op(op).inputs[position].tensor);
    return is_kept ? kAllReaders : sharers_.Of(op, position);
  }

  /*! \brief Count the reads that may share fetches with an input, including itself. */
  size_t CountSharedReads(int id, size_t position) const {
    const int tensor = graph_.op(id).inputs[position].tensor;
    size_t count = 0;
    for (int reader : graph_.tensor(tensor).readers) {
      const std::vector<Input>& inputs = graph_.op(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        count += inputs[i].is_read && inputs[i].tensor == tensor &&
                 SharersOf(reader, i) == SharersOf(id, position);
      }
    }
    return count;
  }

  static Movement FindMovement(const Input& input, const Output& output) {
    const std::vector<int64_t> input_ends = ListLowerEnds(input.rows, input.absent);
    const std::vector<int64_t> output_ends = ListLowerEnds(output.rows, output.absent);
    Movement movement;
    for (size_t d = 0; d < input_ends.size(); ++d)
      movement.distance.push_back(output_ends[d] - input_ends[d]);
    movement.source_lacks = input.absent.dimension;
    movement.target_lacks = output.absent.dimension;
    return movement;
  }

  /*! \brief Return the lower ends of all rows, including the row of an absent dimension. */
  static std::vector<int64_t> ListLowerEnds(const std::vector<Row>& rows, const Absent& absent) {
    std::vector<int64_t> ends;
    for (const Row& row : rows) ends.push_back(row.lower);
    if (absent.IsGiven()) ends.insert(ends.begin() + absent.dimension, absent.row.lower);
    return ends;
  }

  /*! \brief Emit a fetch that assembles the worker's part of an output from the inputs. Return node
   * -1 if the part is empty or unused. */
  Entry EmitOutputFetch(const Operator& op, int worker, const std::vector<Reading*>& readings,
                        const std::vector<Entry>& fetched_inputs, const ProducedOutput& output) {
    const Output& written = op.outputs[output.index];
    const Interval* part = (*output.regions)[worker];
    const int rank = output.regions->rank();
    const bool is_unused = op.outputs.size() > 1 && !is_used_[written.tensor];
    if (is_unused || IsEmptyBox(part, rank)) return {};
    FetchPieces pieces(part, rank, builder_.DetailOf(worker));
    double fill = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Input& input = op.inputs[i];
      if (!input.is_read) continue;
      fill = input.fill;
      const Movement movement = FindMovement(input, written);
      const Box moved_region = movement.Move(readings[i]->needed[worker]);
      const Box widened_part = movement.Widen(part);
      Box overlap(movement.rank());
      if (!Intersect(moved_region.data(), widened_part.data(), movement.rank(), overlap.data()))
        continue;
      if (fetched_inputs[i].node < 0) {
        shards_.AddRegion(input.tensor, worker, overlap, movement, &pieces);
      } else {
        pieces.Add(overlap, fetched_inputs[i], moved_region, movement);
      }
    }
    return builder_.AddFetch(written.tensor, worker, op.phase, fill, std::move(pieces));
  }

  /*! \brief Return an entry with the region of an input: the worker's shard, a fetch that other
   * reads share, or a new fetch. */
  Entry EmitInput(int op_id, size_t position, Reading* reading, int worker) {
    const Operator& op = graph_.op(op_id);
    const Input& input = op.inputs[position];
    const Boxes& shards = shards_.ShardBoxes(input.tensor);
    const int rank = shards.rank();
    const Interval* region = reading->needed[worker];
    const bool is_zero = reading->is_zero[worker];
    const bool is_shard = IsEqualBox(region, shards[worker], rank);
    if (input.is_held && !is_shard) {
      Refuse("operator ", op_id, " writes tensor ", input.tensor,
             " in place: each worker's region must be exactly its shard");
    }
    // If only the shape is used, a variable of that shape can be passed.
    const bool is_variable = graph_.tensor(input.tensor).producer < 0;
    if (is_shard && (!is_zero || (!input.is_read && is_variable))) {
      return shards_.Shard(input.tensor, worker);
    }
    std::vector<std::vector<SharedFetch>>& fetches_by_worker =
        shared_fetches_[SharersOf(op_id, position)][input.tensor];
    fetches_by_worker.resize(grid_.num_workers());
    std::vector<SharedFetch>& fetches = fetches_by_worker[worker];
    for (const SharedFetch& fetch : fetches) {
      if (fetch.is_zero == is_zero && IsSameRegion(fetch.region, fetch.fill, region, input.fill,
                                                   graph_.tensor(input.tensor).shape)) {
        return fetch.entry;
      }
    }
    const Entry entry =
        is_zero ? builder_.AddFetch(input.tensor, worker, op.phase, 0,
                                    FetchPieces(region, rank, builder_.DetailOf(worker)))
                : shards_.FetchRegion(input.tensor, worker, op.phase, region, input.fill,
                                      &reading->owners[worker]);
    builder_.MarkTransit(entry);
    fetches.push_back({region, input.fill, is_zero, entry});
    return entry;
  }

  void EmitRequest(size_t index) {
    const OutputRequest& request = outputs_[index];
    const std::vector<int>& layout =
        request.has_layout ? request.layout : assignment_.tensors[request.tensor];
    const Boxes requested_boxes = SplitTensor(graph_, grid_, request.tensor, layout);
    for (int worker = 0; worker < grid_.num_workers(); ++worker) {
      const Interval* shard = shards_.ShardBoxes(request.tensor)[worker];
      Owners owners;
      const Entry entry = IsEqualBox(requested_boxes[worker], shard, requested_boxes.rank())
                              ? shards_.Shard(request.tensor, worker)
                              : shards_.FetchRegion(request.tensor, worker, kUpdatePhase,
                                                    requested_boxes[worker], 0, &owners);
      request_entries_[index].push_back(entry);
    }
  }

  const Graph& graph_;
  const WorkerGrid& grid_;
  const Assignment& assignment_;
  const std::vector<OutputRequest>& outputs_;
  std::array<bool, kNumPhases> has_phase_{};
  NodeSink& builder_;
  TensorShards shards_;
  CopyRegions regions_;
  std::vector<char> is_used_;  // by tensor: true if it is read in these phases
  Sharers sharers_;
  std::unordered_map<int, std::unordered_map<int, std::vector<std::vector<SharedFetch>>>>
      shared_fetches_;                               // by sharers, tensor and worker
  std::vector<std::vector<Entry>> request_entries_;  // by output request, empty until emitted
  std::vector<std::vector<int>> requests_by_tensor_;
};

}  // namespace

Program EmitProgram(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                    const std::vector<int>& phases, const std::vector<OutputRequest>& outputs,
                    const std::vector<int>& readers) {
  ProgramBuilder builder(grid.num_workers(), readers);
  Emitter(graph, grid, assignment, phases, outputs, &builder).Run();
  builder.GroupByWorker();
  builder.KeepUnread();
  return builder.Take();
}

Outlines EmitOutlines(const Graph& graph, const WorkerGrid& grid, const Assignment& assignment,
                      const std::vector<int>& phases, const std::vector<OutputRequest>& outputs) {
  OutlineBuilder builder(grid.num_workers());
  Emitter(graph, grid, assignment, phases, outputs, &builder).Run();
  return builder.Take();
}

}  // namespace tofu
