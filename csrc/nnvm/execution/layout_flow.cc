/*!
 * \file layout_flow.cc
 */
#include "nnvm/execution/layout_flow.h"

#include <algorithm>

#include "nnvm/execution/operator_clone.h"
#include "nnvm/parts/channel_blocks.h"

namespace tofu::nnvm_layer {
namespace {

/*! \brief Return true if the tensor has channels, and space or time. */
bool IsData(const std::vector<int64_t>& shape) { return shape.size() > 2; }

/*! \brief Layouts of the nodes' first outputs. All other outputs (statistics, gradients of
 * parameters) are plain. */
class Layouts {
 public:
  Layouts(const Program& program, const std::vector<nnvm::ObjectPtr>& nodes)
      : program_(program), nodes_(nodes), is_plain_(nodes.size()) {
    for (const Entry& entry : program.outputs) MakePlain(entry);
    for (size_t n = 0; n < nodes.size(); ++n) MarkPlain(n);
    while (PropagatePlain()) {
    }
  }

  bool is_plain(size_t n) const { return is_plain_[n]; }
  bool ChoosesLayout(size_t n) const {
    const nnvm::Op* op = nodes_[n]->op();
    return op != nullptr && nnvm_layer::ChoosesLayout(OriginalOperator(op));
  }

 private:
  /*! \brief Return true if the operator accepts blocks. _grad_add may add in place to an output
   * with a given layout. */
  bool TakesBlocks(size_t n) const {
    const nnvm::Op* op = nodes_[n]->op();
    return op != nullptr && nnvm::Op::GetAttr<bool>("TIsMKLDNN").get(op, false) &&
           OriginalOperator(op)->name != "_grad_add";
  }

  bool PassesLayoutOn(size_t n) const { return TakesBlocks(n) && !ChoosesLayout(n); }

  void MarkPlain(size_t n) {
    const ProgramNode& node = program_.nodes[n];
    const bool has_more = node.shapes.size() > 1 && IsData(node.shapes[1]);
    const bool fits = !IsData(node.shapes[0]) || node.shapes[0][1] % kLargestBlock == 0;
    if (!TakesBlocks(n) || !fits || (has_more && !ChoosesLayout(n))) is_plain_[n] = true;
    if (TakesBlocks(n)) return;
    for (const Entry& entry : node.inputs) MakePlain(entry);
  }

  /*! \brief Make an output plain. Return false if it was plain before. */
  bool MakePlain(const Entry& entry) {
    if (entry.index > 0 || is_plain_[entry.node]) return false;
    is_plain_[entry.node] = true;
    return true;
  }

  bool IsPlainData(const Entry& entry) const {
    return IsData(program_.nodes[entry.node].shapes[entry.index]) &&
           (entry.index > 0 || is_plain_[entry.node]);
  }

  /*! \brief Make all data of an operator plain if some is plain. Return true if anything changed.
   */
  bool PropagatePlain() {
    bool has_changed = false;
    for (size_t n = nodes_.size(); n-- > 0;)
      has_changed |= PassesLayoutOn(n) && MakeOperatorPlain(n);
    for (size_t n = 0; n < nodes_.size(); ++n)
      has_changed |= PassesLayoutOn(n) && MakeOperatorPlain(n);
    return has_changed;
  }

  bool MakeOperatorPlain(size_t n) {
    std::vector<Entry> data = program_.nodes[n].inputs;
    data.push_back(Entry{static_cast<int64_t>(n), 0});
    const auto is_plain = [&](const Entry& entry) { return IsPlainData(entry); };
    if (std::none_of(data.begin(), data.end(), is_plain)) return false;
    bool has_changed = false;
    for (const Entry& entry : data) has_changed |= MakePlain(entry);
    return has_changed;
  }

  const Program& program_;
  const std::vector<nnvm::ObjectPtr>& nodes_;
  std::vector<bool> is_plain_;
};

}  // namespace

void ChooseBlockedOutputs(const Program& program, const std::vector<nnvm::ObjectPtr>& nodes) {
  const Layouts layouts(program, nodes);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (layouts.ChoosesLayout(n) && !layouts.is_plain(n)) LetChooseLayout(&nodes[n]->attrs);
  }
}

}  // namespace tofu::nnvm_layer
