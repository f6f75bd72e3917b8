/*!
 * \file check_fetches.cc
 */
#include "nnvm/memory/check_fetches.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <sstream>

#include "nnvm/fetch/multi_fetch.h"

namespace tofu::nnvm_layer {
namespace {

using nnvm::IndexedGraph;

std::string BoxText(const Box& box) {
  std::ostringstream out;
  out << '(';
  for (size_t d = 0; d < box.size(); ++d) {
    out << (d == 0 ? "" : ", ") << '(' << box[d].begin << ", " << box[d].end << ')';
  }
  out << (box.size() == 1 ? ",)" : ")");
  return out.str();
}

/*! \brief Return true if the box is not empty and inside a tensor of this shape. */
bool IsInside(const Box& box, const mxnet::TShape& shape) {
  if (static_cast<int>(box.size()) != shape.ndim()) return false;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (box[d].extent() == 0 || !Contains({0, shape[d]}, box[d])) return false;
  }
  return true;
}

class Checker {
 public:
  explicit Checker(const PlannedGraph& planned)
      : planned_(planned), index_(planned.graph.indexed_graph()) {}

  std::vector<std::string> Check() {
    for (uint32_t id = 0; id < index_.num_nodes(); ++id) {
      CheckWorker(id);
      if (index_[id].source->op() == MultiFetchOp()) CheckFetch(id);
    }
    return std::move(problems_);
  }

 private:
  const std::string& Name(uint32_t id) const { return index_[id].source->attrs.name; }

  /*! \brief The worker's group as text. */
  std::string GroupOf(uint32_t id) const {
    const std::string& name = planned_.groups[planned_.group_of_node[id]];
    return name.empty() ? "no worker" : name;
  }

  void CheckWorker(uint32_t id) {
    const int group = planned_.group_of_node[id];
    if (planned_.groups[group].empty()) problems_.push_back(Name(id) + " belongs to no worker");
    if (index_[id].source->op() == MultiFetchOp()) return;
    for (const auto& entry : index_[id].inputs) {
      if (planned_.group_of_node[entry.node_id] == group) continue;
      problems_.push_back(Name(id) + " (" + GroupOf(id) + ") reads " + Name(entry.node_id) +
                          " of another worker without a fetch");
    }
  }

  void CheckFetch(uint32_t id) {
    const MultiFetchParam& param = MultiFetchParamOf(index_[id].source->attrs);
    bool are_boxes = true;
    for (const Piece& piece : param.pieces) {
      if (IsInside(piece.box, param.shape)) continue;
      are_boxes = false;
      std::ostringstream problem;
      problem << Name(id) << ": the piece " << BoxText(piece.box)
              << " is empty or leaves the region of shape " << param.shape;
      problems_.push_back(problem.str());
    }
    if (are_boxes && !param.pieces.empty()) CheckOverlaps(id, param.pieces);
  }

  /*! \brief The dimension in which the pieces have the most distinct begins. */
  static size_t FindSweepDimension(const std::vector<Piece>& pieces) {
    size_t best = 0, most = 0;
    for (size_t d = 0; d < pieces[0].box.size(); ++d) {
      std::set<int64_t> begins;
      for (const Piece& piece : pieces) begins.insert(piece.box[d].begin);
      if (begins.size() <= most) continue;
      most = begins.size();
      best = d;
    }
    return best;
  }

  /*! \brief Compare each piece with those that begin before its end, along one dimension. */
  void CheckOverlaps(uint32_t id, const std::vector<Piece>& pieces) {
    const size_t d = FindSweepDimension(pieces);
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return pieces[a].box[d].begin < pieces[b].box[d].begin;
    });
    for (size_t i = 0; i < order.size(); ++i) {
      const Box& box = pieces[order[i]].box;
      for (size_t j = i + 1; j < order.size(); ++j) {
        const Box& next = pieces[order[j]].box;
        if (next[d].begin >= box[d].end) break;
        if (!Meet(box, next)) continue;
        problems_.push_back(Name(id) + ": cells are written twice, by the pieces " + BoxText(box) +
                            " and " + BoxText(next));
      }
    }
  }

  const PlannedGraph& planned_;
  const IndexedGraph& index_;
  std::vector<std::string> problems_;
};

}  // namespace

int64_t CountRemoteBytes(const PlannedGraph& planned) {
  const IndexedGraph& index = planned.graph.indexed_graph();
  const auto& types = planned.graph.GetAttr<nnvm::DTypeVector>("dtype");
  int64_t bytes = 0;
  for (uint32_t id = 0; id < index.num_nodes(); ++id) {
    if (index[id].source->op() != MultiFetchOp()) continue;
    int64_t cells = 0;
    for (const Piece& piece : MultiFetchParamOf(index[id].source->attrs).pieces) {
      const int64_t num_remote =
          std::count_if(piece.sources.begin(), piece.sources.end(), [&](const Source& source) {
            const uint32_t producer = index[id].inputs[source.input].node_id;
            return planned.group_of_node[producer] != planned.group_of_node[id];
          });
      cells += num_remote * Volume(piece.box);
    }
    bytes += cells * mshadow::mshadow_sizeof(types[index.entry_id(id, 0)]);
  }
  return bytes;
}

std::vector<std::string> FindFetchProblems(const PlannedGraph& planned) {
  return Checker(planned).Check();
}

}  // namespace tofu::nnvm_layer
