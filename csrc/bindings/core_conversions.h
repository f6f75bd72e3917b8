/*!
 * \file core_conversions.h
 * \brief Declare the parts of tofu._core, and convert between NumPy arrays and the core's vectors.
 */
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/cost/cost.h"
#include "core/geometry/geometry.h"
#include "core/graph/graph.h"

namespace tofu {

void RegisterGraph(pybind11::module_* module);
void RegisterGeometry(pybind11::module_* module);
void RegisterSearch(pybind11::module_* module);
void RegisterProgram(pybind11::module_* module);

/*! \brief Choices for operators or tensors, as int32 [count, rounds]. */
using ChoiceArray =
    pybind11::array_t<int32_t, pybind11::array::c_style | pybind11::array::forcecast>;

inline std::vector<std::vector<int>> ToChoices(const ChoiceArray& array, const char* name) {
  if (array.ndim() != 2) Refuse(name, " must be an array of two dimensions, [count, rounds]");
  std::vector<std::vector<int>> choices(array.shape(0));
  const int32_t* row = array.data();
  for (auto& one : choices) {
    one.assign(row, row + array.shape(1));  // there are no rounds with one worker
    row += array.shape(1);
  }
  return choices;
}

/*! \brief Return a plan, with the tensors that it keeps and those that it reads again. */
inline Assignment ToAssignment(const Graph& graph, const ChoiceArray& operators,
                               const ChoiceArray& tensors, const std::vector<int>& kept,
                               const std::vector<int>& reread) {
  const auto mark = [&](const std::vector<int>& numbers) {
    std::vector<char> marks(numbers.empty() ? 0 : graph.num_tensors());
    for (int tensor : numbers) marks.at(tensor) = 1;
    return marks;
  };
  return {ToChoices(operators, "operators"), ToChoices(tensors, "tensors"), mark(kept),
          mark(reread)};
}

inline ChoiceArray FromChoices(const std::vector<std::vector<int>>& choices, size_t rounds) {
  ChoiceArray array(
      {static_cast<pybind11::ssize_t>(choices.size()), static_cast<pybind11::ssize_t>(rounds)});
  int32_t* out = array.mutable_data();
  for (const std::vector<int>& choice : choices) out = std::copy(choice.begin(), choice.end(), out);
  return array;
}

/*! \brief Return the begin and end of every interval, as int64 [workers, rank, 2]. */
inline pybind11::array_t<int64_t> FromBoxes(const Boxes& boxes) {
  pybind11::array_t<int64_t> array({boxes.count(), boxes.rank(), 2});
  int64_t* out = array.mutable_data();
  for (int worker = 0; worker < boxes.count(); ++worker) {
    for (int d = 0; d < boxes.rank(); ++d) {
      *out++ = boxes[worker][d].begin;
      *out++ = boxes[worker][d].end;
    }
  }
  return array;
}

/*! \brief Return a one-dimensional array that owns a vector. */
template <typename T>
pybind11::array_t<T> FromVector(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  pybind11::capsule owner(owned, [](void* data) { delete static_cast<std::vector<T>*>(data); });
  return pybind11::array_t<T>({static_cast<pybind11::ssize_t>(owned->size())}, owned->data(),
                              owner);
}

}  // namespace tofu
