/*!
 * \file graph.h
 * \brief The semantic graph as the search sees it: tensors, operators, and accesses.
 *
 * An operator consists of the extents of its splittable axes and one access, a row per tensor
 * dimension, for each input and output. Operators are added in topological order and checked when
 * they are added.
 */
#ifndef TOFU_CORE_GRAPH_GRAPH_H_
#define TOFU_CORE_GRAPH_GRAPH_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/phase.h"

namespace tofu {

/*! \brief The choice of a round is the index of an axis or dimension, or this value. */
constexpr int kReplicated = -1;

/*! \brief The most bytes of a tensor in a step: two fetches of all of it are counted in 63 bits. */
constexpr int64_t kMaxTensorBytes = int64_t{1} << 61;

/*! \brief coefficient * (index of the axis). */
struct Term {
  int axis;
  int64_t coefficient;
};

/*!
 * \brief The interval of a tensor dimension that an operator accesses, affine in its axes.
 *
 * At axis intervals [b, e) the row is [lower + sum of the terms' minima, upper + sum of the terms'
 * maxima). A plain index i is terms = {(i, 1)}, lower = 0, upper = 1. If none of its axes is
 * narrowed, the row is the whole dimension.
 */
struct Row {
  std::vector<Term> terms;
  int64_t lower = 0;
  int64_t upper = 1;
};

/*!
 * \brief A dimension that a tensor lacks, and that the tensors have which its elements are moved to
 * or from.
 *
 * A stack has one more dimension than its tensors, each of which is one element of it. The row is
 * the interval of a part of the operator along that dimension, relative to the tensor's element:
 * the part accesses the tensor if the row contains 0.
 */
struct Absent {
  int dimension = -1;  // position among the dimensions of the others, or -1 for none
  Row row;

  bool IsGiven() const { return dimension >= 0; }
};

/*! \brief How the parts of an output along a split axis are combined. */
enum class Combine : int { kConcat = 0, kReduce = 1, kReplicate = 2, kOverlapAdd = 3 };

struct Input {
  int tensor = -1;
  std::vector<Row> rows;         // one per dimension
  std::vector<int> addend_axes;  // if one of these is split, only part 0 reads the tensor, and the
                                 // others get zeros
  double fill = 0;               // value outside the tensor

  bool is_held = false;     // written in place: each worker's region must be its shard
  bool is_read = true;      // false: only the shape matters, so zeros do
  bool is_clipped = false;  // elements outside the tensor are not needed
  bool is_exact = false;    // rows hold even if none of their axes is narrowed
  Absent absent = {};       // if fetches move the tensor
};

struct Output {
  int tensor = -1;
  std::vector<Row> rows;
  std::vector<Combine> combine;  // one per axis
  Absent absent = {};            // if fetches assemble the tensor
};

struct Tensor {
  std::vector<int64_t> shape;
  int64_t element_bytes = 4;
  int64_t times = 1;           // computations per training step, all counted in element_bytes
  bool is_replicable = false;  // tiny: the search may keep a copy on every worker
  bool is_uneven = false;      // in a graph that splits equally: parts may overlap (SplitEqualPart)

  double holding_price = -1;  // per byte that a worker holds; if not negative, the search may
                              // replicate the tensor and pays for all shards
  uint64_t label = 0;         // structural label, only to break ties
  int producer = -1;          // operator, or -1 for variables
  int producer_output = -1;
  std::vector<int> readers;           // operators, each once, ascending
  std::vector<int> followers;         // operators whose choice is this tensor's layout
  std::vector<int> output_positions;  // positions among the graph's outputs

  int64_t NumElements() const;
  bool MayReplicate() const { return is_replicable || holding_price >= 0; }
  bool IsRead() const { return !readers.empty() || !output_positions.empty(); }
};

struct Operator {
  std::vector<int64_t> axis_extents;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int phase = kForwardPhase;
  int64_t group = -1;  // operators with equal group, phase and choice share fetches
  uint64_t label = 0;
  int follows_tensor = -1;  // a tensor whose layout is the choice (weight updates)
  int same_choice_as = -1;  // an earlier operator with the same choice

  bool may_repeat = false;       // the search may have every worker compute the whole operator
  std::vector<int> uneven_axes;  // in a graph that splits equally: axes whose parts may overlap

  // Axes along which the operator only moves elements: if one is split, each output is assembled by
  // a fetch. An element of an output is the sum of the elements of read inputs at the distance of
  // the rows' lower ends. Without such elements it is the fill. For a dimension that a tensor
  // lacks, its Absent stands in place of the row.
  std::vector<int> fetched_axes;

  // The operator only moves elements, and reads a part of its input whatever is split: a fetch
  // always replaces its copies.
  bool is_always_fetched = false;

  bool CanBeFetched() const { return is_always_fetched || !fetched_axes.empty(); }

  /*! \brief Return true if fetches replace the operator's copies. */
  bool IsFetched(const std::vector<int>& choice) const;
};

class Graph {
 public:
  /*! \brief Add a tensor and return its id. \throws std::invalid_argument for an empty or
   * non-positive shape */
  int AddTensor(std::vector<int64_t> shape, int64_t element_bytes, bool is_replicable,
                uint64_t label, int64_t times = 1);

  /*! \brief Add an operator and return its id. \throws std::invalid_argument naming the operator
   * and the broken rule */
  int AddOperator(Operator op);

  /*! \brief Give two tensors the same layout. \throws std::invalid_argument if their shapes differ
   * or only one is replicable */
  void TieTensors(int a, int b);

  /*! \brief Give the first operator of each pair the choice of the second, an earlier one. Linear
   * in the graph. \throws std::invalid_argument as AddOperator does */
  void ShareChoices(const std::vector<std::pair<int, int>>& bound);

  /*! \brief Let the search replicate a tensor in any round for `price` per byte that a worker
   * holds. Tied tensors must have equal prices, or none. */
  void Hold(int tensor, double price);

  /*! \brief Let the search have every worker compute the whole operator in any round. */
  void Repeat(int op);

  /*! \brief Split dimensions and axes only into equal parts from now on. */
  void SplitEqually() { splits_equally_ = true; }
  bool splits_equally() const { return splits_equally_; }

  /*! \brief Allow overlapping parts for dimensions of the tensor that have no equal parts. */
  void SplitUnevenly(int tensor) { tensors_[CheckTensor(tensor)].is_uneven = true; }
  /*! \brief Dimensions of the tensor and its tied tensors for which this is allowed. */
  std::vector<int> UnevenDimensions(int tensor) const;
  /*! \brief The same for axes of an operator and of all that share its choice. */
  std::vector<int> UnevenAxes(int op) const;

  /*! \brief Share each fetched region among all readers of the tensor in one phase (sharing.h). */
  void ShareRegions() { shares_regions_ = true; }
  bool shares_regions() const { return shares_regions_; }

  /*! \brief Reduce partial results of small replicated tensors in two stages, like those of large
   * ones (PlacedLayout::can_scatter). */
  void StageSmallSums() { stages_small_sums_ = true; }
  bool stages_small_sums() const { return stages_small_sums_; }

  /*! \brief Mark a tensor as an output of the graph. Calls are in the order of the outputs. */
  void MarkOutput(int tensor);

  int num_tensors() const { return static_cast<int>(tensors_.size()); }
  int num_operators() const { return static_cast<int>(operators_.size()); }
  const Tensor& tensor(int id) const { return tensors_[CheckTensor(id)]; }
  const Operator& op(int id) const { return operators_[CheckOperator(id)]; }

  /*! \brief The representative of the tensors that are tied to this one. */
  int TensorClass(int id) const;
  /*! \brief The first of the operators that share the choice. */
  int ChoiceRoot(int id) const { return choice_roots_[CheckOperator(id)]; }

  int CheckTensor(int id) const;
  int CheckOperator(int id) const;

 private:
  void CheckInput(int id, const Operator& op, size_t position) const;
  void CheckOutput(int id, const Operator& op, size_t position) const;
  void CheckRows(const std::string& where, const Operator& op, int tensor,
                 const std::vector<Row>& rows) const;
  void CheckAbsent(const std::string& where, const Operator& op, int tensor,
                   const Absent& absent) const;
  void CheckChoiceLinks(int id, const Operator& op) const;
  void CheckFetched(int id, const Operator& op) const;
  void KeepCommonUnevenAxes(int root, const std::vector<int>& axes);
  void CheckGroup(int id, const Operator& op);

  std::vector<Tensor> tensors_;
  std::vector<Operator> operators_;
  std::vector<int> choice_roots_;
  std::vector<int> tensor_parents_;  // union-find over tied tensors
  std::unordered_map<int64_t, int> group_first_;
  int num_outputs_ = 0;
  bool splits_equally_ = false;
  bool shares_regions_ = false;
  bool stages_small_sums_ = false;
};

/*! \brief "[2, 3, 4]", for messages. */
std::string FormatList(const std::vector<int64_t>& values);

}  // namespace tofu

#endif  // TOFU_CORE_GRAPH_GRAPH_H_
