/*!
 * \file graph.h
 * \brief The graph that is searched: tensors, operators, and the regions that operators access.
 *
 * An operator has the extents of the axes along which it can be split. Each input and output has a
 * *row* per dimension, which states the interval that a part of the operator accesses. Operators
 * are added in topological order, and checked when they are added.
 */
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/phase.h"

namespace tofu {

/*! \brief The choice in a round that splits nothing. All other choices are numbers of axes or
 * dimensions. */
constexpr int kReplicated = -1;

/*! \brief The most bytes of a tensor in a step. Two fetches of the complete tensor still fit into
 * 63 bits.
 */
constexpr int64_t kMaxTensorBytes = int64_t{1} << 61;

/*! \brief The product of a coefficient and the position along an axis. */
struct Term {
  int axis;
  int64_t coefficient;
};

/*!
 * \brief The interval of a tensor dimension that an operator accesses, affine in its axes.
 *
 * For a part with axis intervals [b, e), the row is [lower + sum of the terms' minima, upper + sum
 * of the terms' maxima). A plain index i is terms = {(i, 1)}, lower = 0, upper = 1. If none of its
 * axes is split, the row is the whole dimension.
 */
struct Row {
  std::vector<Term> terms;
  int64_t lower = 0;
  int64_t upper = 1;
};

/*!
 * \brief A dimension that one tensor of an operator lacks. For example, each input of a stack is
 * one slice of the output.
 *
 * The row is the interval of a part of the operator along that dimension, relative to the slice.
 * The part accesses the tensor if the row contains 0.
 */
struct Absent {
  int dimension = -1;  // position among the dimensions of the tensors that have it; -1 for none
  Row row;

  bool IsGiven() const { return dimension >= 0; }
};

/*!
 * \brief Two axes of an operator. `inner` can be split only when every part of `outer` has extent
 * 1. For example, a reshape from 6 to (2, 3) has an outer axis of extent 2 and an inner axis of 3.
 * Other parts of the 6 elements are not boxes.
 */
struct Nesting {
  int inner;
  int outer;
};

/*! \brief The way in which the parts of an output are combined when an axis is split. */
enum class Combine : int { kConcat = 0, kReduce = 1, kReplicate = 2, kOverlapAdd = 3 };

struct Input {
  int tensor = -1;
  std::vector<Row> rows;         // one per dimension
  std::vector<int> addend_axes;  // if one of these is split, only part 0 reads the tensor; all
                                 // other parts receive zeros
  double fill = 0;               // value of elements outside the tensor

  bool is_held = false;     // true if the operator writes it in place; its region must be the shard
  bool is_read = true;      // false if only the shape is used, so that zeros may be passed
  bool is_clipped = false;  // true if elements outside the tensor are not needed
  bool is_exact = false;    // true if rows hold even when no axis in their terms is split
  Absent absent = {};       // a dimension that the tensor lacks, if fetches move it
};

struct Output {
  int tensor = -1;
  std::vector<Row> rows;
  std::vector<Combine> combine;  // one per axis
  Absent absent = {};            // a dimension that the tensor lacks, if fetches assemble it
};

struct Tensor {
  std::vector<int64_t> shape;
  int64_t element_bytes = 4;
  int64_t times = 1;           // computations per training step; element_bytes counts all of them
  bool is_replicable = false;  // the search may keep a copy on every worker
  bool is_uneven = false;      // in a graph that splits equally: parts may overlap (SplitEqualPart)

  double holding_price = -1;  // cost per byte that a worker holds; if not negative, the search may
                              // replicate the tensor, and pays for all shards
  uint64_t label = 0;         // structural label, which breaks ties
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
  int follows_tensor = -1;  // for a weight update: the tensor whose layout is the choice
  int same_choice_as = -1;  // an earlier operator whose choice this operator must take

  bool may_repeat = false;       // the search may have every worker compute the whole operator
  std::vector<int> uneven_axes;  // in a graph that splits equally: axes whose parts may overlap
  std::vector<Nesting> nestings;

  // Axes of an operator that only moves elements, such as Concat. If one is split, a fetch
  // assembles each output. An output element is the sum of one element of each input, or the fill
  // if no input has an element there. Inputs are shifted by the difference of the rows' lower ends.
  // For a dimension that a tensor lacks, its Absent replaces the row.
  std::vector<int> fetched_axes;

  // True if the operator reads a part of its input, such as a slice: a fetch always replaces its
  // copies.
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

  /*! \brief Give the first operator of each pair the choice of the second, an earlier operator.
   * Takes time linear in the graph. \throws std::invalid_argument like AddOperator */
  void ShareChoices(const std::vector<std::pair<int, int>>& bound);

  /*! \brief Let the search replicate a tensor in any round, at a `price` per byte that a worker
   * holds. Tied tensors must have equal prices, or none. */
  void Hold(int tensor, double price);

  /*! \brief Let the search have every worker compute the whole operator in any round. */
  void Repeat(int op);

  /*! \brief Split dimensions and axes only into equal parts from now on. */
  void SplitEqually() { splits_equally_ = true; }
  bool splits_equally() const { return splits_equally_; }

  /*! \brief Allow overlapping parts for dimensions of the tensor that have no equal parts. */
  void SplitUnevenly(int tensor) { tensors_[CheckTensor(tensor)].is_uneven = true; }
  /*! \brief Return the dimensions whose parts may overlap in a tensor and all tensors tied to it.
   */
  std::vector<int> UnevenDimensions(int tensor) const;
  /*! \brief Return the axes whose parts may overlap in an operator and all that share its choice.
   */
  std::vector<int> UnevenAxes(int op) const;
  /*! \brief Return the nestings of an operator and of all that share its choice. */
  const std::vector<Nesting>& Nestings(int op) const { return operators_[ChoiceRoot(op)].nestings; }

  /*! \brief Share each fetched region among all readers of the tensor in one phase (sharing.h). */
  void ShareRegions() { shares_regions_ = true; }
  bool shares_regions() const { return shares_regions_; }

  /*! \brief Reduce partial results of small replicated tensors in parts that are then gathered, as
   * for large tensors (PlacedLayout::can_scatter). */
  void StageSmallSums() { stages_small_sums_ = true; }
  bool stages_small_sums() const { return stages_small_sums_; }

  /*! \brief Let workers with equal digits above a round relay to each other (cost.h). An element
   * that several of them need crosses the round once. Their partial results are added before they
   * cross it. */
  void RelayInGroups() { relays_in_groups_ = true; }
  bool relays_in_groups() const { return relays_in_groups_; }

  /*! \brief Mark a tensor as the next output of the graph. */
  void MarkOutput(int tensor);

  int num_tensors() const { return static_cast<int>(tensors_.size()); }
  int num_operators() const { return static_cast<int>(operators_.size()); }
  const Tensor& tensor(int id) const { return tensors_[CheckTensor(id)]; }
  const Operator& op(int id) const { return operators_[CheckOperator(id)]; }

  /*! \brief Return the representative of the tensors that are tied to a tensor. */
  int TensorClass(int id) const;
  /*! \brief Return the first of the operators that share an operator's choice. */
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
  void CheckNestings(int id, const Operator& op) const;
  void KeepCommonSplits(int root, const Operator& op);
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
  bool relays_in_groups_ = false;
};

/*! \brief Return a text such as "[2, 3, 4]", for messages. */
std::string FormatList(const std::vector<int64_t>& values);

}  // namespace tofu
