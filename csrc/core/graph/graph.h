/*!
 * \file graph.h
 * \brief The semantic graph as the search sees it: tensors, operators, and how operators access
 * tensors.
 *
 * No names, no framework: an operator is the extents of its splittable axes and one access (a row
 * per tensor dimension) for each input and output. Operators are added in topological order; every
 * check happens on the way in.
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

/*! \brief A choice of a step: the index of an axis or a dimension, or this one for "replicated". */
constexpr int kReplicated = -1;

/*! \brief Of a tensor in a step, so that the two fetches of all of it are counted in 63 bits. */
constexpr int64_t kMaxTensorBytes = int64_t{1} << 61;

/*! \brief coefficient * (index of the axis). */
struct Term {
  int axis;
  int64_t coefficient;
};

/*!
 * \brief The interval of one tensor dimension that an operator touches, affine in its axes.
 *
 * At axis intervals [b, e) the row is [lower + sum of the terms' minima, upper + sum of the terms'
 * maxima); a plain index i is terms = {(i, 1)}, lower = 0, upper = 1. A row none of whose axes is
 * narrowed is the whole dimension.
 */
struct Row {
  std::vector<Term> terms;
  int64_t lower = 0;
  int64_t upper = 1;
};

/*!
 * \brief A dimension that a tensor lacks, and that the tensors have which its cells move to or
 * from.
 *
 * A stack of tensors has one more dimension than they do: each of them is one cell of it. The row
 * is where a part of the operator is along that dimension, seen from that cell: the part touches
 * the tensor where the row has the cell 0.
 */
struct Absent {
  int dimension = -1;  // its place among the dimensions of the others; -1: the tensor lacks none
  Row row;

  bool IsGiven() const { return dimension >= 0; }
};

/*! \brief How the parts of an output along a split axis come together. */
enum class Combine : int { kConcat = 0, kReduce = 1, kReplicate = 2, kOverlapAdd = 3 };

struct Input {
  int tensor = -1;
  std::vector<Row> rows;         // one per dimension of the tensor
  std::vector<int> addend_axes;  // under a split of these, part 0 alone reads the tensor and the
                                 // others get zeros
  double fill = 0;               // value of cells outside the tensor
  bool is_held = false;          // written in place: each worker's region must be exactly its shard
  bool is_read = true;           // false: the kernel takes it for its shape alone, so zeros will do
  bool is_clipped = false;       // cells outside the tensor are not asked for
  bool is_exact = false;  // rows hold even where none of their axes is narrowed
  Absent absent = {};            // of a tensor that fetches move
};

struct Output {
  int tensor = -1;
  std::vector<Row> rows;
  std::vector<Combine> combine;  // one per axis
  Absent absent = {};            // of a tensor that fetches put together
};

struct Tensor {
  std::vector<int64_t> shape;
  int64_t element_bytes = 4;
  int64_t times = 1;  // that it is made in one training step; all of these are in element_bytes
  bool is_replicable = false;  // tiny: the search may keep a copy on every worker
  bool is_uneven = false;      // in a graph that splits equally: parts may overlap (SplitPart)
  double holding_price = -1;  // of a byte that some worker holds; not negative: the search may keep
                              // copies on several workers, and pays for all it lays out
  uint64_t label = 0;         // structural label, for canonical tie-breaking only
  int producer = -1;          // operator, or -1 for variables
  int producer_output = -1;
  std::vector<int> readers;           // operators, each once, ascending
  std::vector<int> followers;         // operators whose choice is this tensor's layout
  std::vector<int> output_positions;  // places among the graph's outputs

  int64_t NumElements() const;
  bool MayReplicate() const { return is_replicable || holding_price >= 0; }
  bool IsRead() const { return !readers.empty() || !output_positions.empty(); }
};

struct Operator {
  std::vector<int64_t> axis_extents;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int phase = kForwardPhase;
  int64_t group = -1;  // operators of one group, phase and choice share their fetches
  uint64_t label = 0;
  int follows_tensor = -1;       // the choice is this tensor's layout (weight updates)
  int same_choice_as = -1;       // an earlier operator whose choice this one shares
  bool may_repeat = false;       // the search may have every worker compute all of it
  std::vector<int> uneven_axes;  // in a graph that splits equally: their parts may overlap

  // Axes along which no kernel computes a part: the operator only moves cells, and each output is
  // put together by a fetch. A cell of an output is the sum of those cells of the inputs that are
  // read which lie at the distance of the rows' lower ends, or the fill where there are none. A
  // tensor that lacks a dimension has its Absent in place of that one's row.
  std::vector<int> fetched_axes;

  // The operator only moves cells, and reads a part of its inputs whatever it is split along: no
  // copy of it ever runs.
  bool is_always_fetched = false;

  bool CanBeFetched() const { return is_always_fetched || !fetched_axes.empty(); }

  /*! \brief Whether fetches take the place of the operator's copies. */
  bool IsFetched(const std::vector<int>& choice) const;
};

class Graph {
 public:
  /*! \brief Adds a tensor and returns its id. \throws std::invalid_argument for an empty or
   * non-positive shape. */
  int AddTensor(std::vector<int64_t> shape, int64_t element_bytes, bool is_replicable,
                uint64_t label, int64_t times = 1);

  /*! \brief Adds an operator and returns its id. \throws std::invalid_argument naming the operator
   * and the broken rule. */
  int AddOperator(Operator op);

  /*! \brief The two tensors always have the same layout. \throws std::invalid_argument for unequal
   * shapes, or where one of them is replicable. */
  void TieTensors(int a, int b);

  /*! \brief Each first operator takes the choice of the second, an earlier one, as if it had been
   * added so. Linear in the graph. \throws std::invalid_argument as AddOperator does. */
  void ShareChoices(const std::vector<std::pair<int, int>>& bound);

  /*! \brief The search may replicate the tensor at any step, and pays `price` for each byte that a
   * worker holds. Tied tensors have to be priced alike, or not at all. */
  void Hold(int tensor, double price);

  /*! \brief The search may have every worker compute all of the operator at any step, though it
   * could be split. */
  void Repeat(int op);

  /*! \brief From now on a dimension or an axis is split into equal parts only. */
  void SplitEqually() { splits_equally_ = true; }
  bool splits_equally() const { return splits_equally_; }

  /*! \brief A dimension of the tensor that has no equal parts may be split into some that overlap.
   */
  void SplitUnevenly(int tensor) { tensors_[CheckTensor(tensor)].is_uneven = true; }
  /*! \brief The dimensions that may be, of the tensor and all that are tied to it. */
  std::vector<int> UnevenDimensions(int tensor) const;
  /*! \brief The axes of an operator that may be, and of all that share its choice. */
  std::vector<int> UnevenAxes(int op) const;

  /*! \brief A fetched region is a value that all readers of the tensor in one phase share
   * (sharing.h). */
  void ShareRegions() { shares_regions_ = true; }
  bool shares_regions() const { return shares_regions_; }

  /*! \brief Partial results of small replicated tensors are reduced in two stages, as those of
   * large ones are (PlacedLayout::can_scatter). */
  void StageSmallSums() { stages_small_sums_ = true; }
  bool stages_small_sums() const { return stages_small_sums_; }

  /*! \brief The tensor is read from outside; the order of the calls is the order of the graph's
   * outputs. */
  void MarkOutput(int tensor);

  int num_tensors() const { return static_cast<int>(tensors_.size()); }
  int num_operators() const { return static_cast<int>(operators_.size()); }
  const Tensor& tensor(int id) const { return tensors_[CheckTensor(id)]; }
  const Operator& op(int id) const { return operators_[CheckOperator(id)]; }

  /*! \brief The representative of the tensors tied to this one. */
  int TensorClass(int id) const;
  /*! \brief The first of the operators that share this one's choice. */
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
