/*!
 * \file problem_size.cc
 */
#include "core/search/problem_size.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/elimination/pairwise.h"

namespace tofu {

namespace {

/*! \brief Limit of the values of a variable, because eliminations number them in 16 bits. */
constexpr double kMaxSequences = (1 << 16) - 1;

/*! \brief Leave out the largest tables until at most `most` entries are left. Tables of equal size
 * are left out together. */
void LeaveOutLargest(double most, std::vector<double>* ascending_sizes) {
  double entries = std::accumulate(ascending_sizes->begin(), ascending_sizes->end(), 0.0);
  while (entries > most) {
    const double largest = ascending_sizes->back();
    for (; !ascending_sizes->empty() && ascending_sizes->back() == largest;
         ascending_sizes->pop_back())
      entries -= largest;
  }
}

}  // namespace

void ProblemSize::Hold(double bytes) {
  held_bytes_ += bytes;
  if (held_bytes_ > limits_.max_bytes) {
    throw std::length_error(Text("the exact search would hold more than ",
                                 static_cast<int64_t>(limits_.max_bytes), " bytes"));
  }
}

/*! \brief Bytes in the problem, in lists of choices, and in keys. */
double ProblemSize::BytesOfSequence() const {
  constexpr double kOfVectors = 80;
  return kOfVectors + 4.0 * sizeof(int) * grid_.num_rounds();
}

/*! \brief Bytes of a layout's boxes while tables are computed. */
double ProblemSize::BytesOfLayout(int tensor) const {
  const double boxes = grid_.has_prices() ? 4 : 2;
  return boxes * BytesOfBoxes(tensor);
}

double ProblemSize::BytesOfBoxes(int tensor) const {
  return static_cast<double>(grid_.num_workers() * sizeof(Interval) *
                             graph_.tensor(tensor).shape.size());
}

void ProblemSize::Check(const CostTables& tables, const SearchVariables& variables,
                        const std::vector<int>& list_of, const std::vector<double>& counts,
                        bool leaves_out) {
  std::vector<char> is_known(counts.size(), 0);
  for (int v = 0; v < variables.size(); ++v) {
    const int list = list_of[v];
    if (counts[list] > kMaxSequences)
      throw std::length_error(variables.Name(v) + " has too many choices for the exact search");
    if (!is_known[list]) Hold(counts[list] * BytesOfSequence());
    is_known[list] = 1;
    Hold(counts[list] * sizeof(Weight));
  }
  std::map<std::tuple<int, int, int>, double> entries_of;  // by table
  double placed = 0;                                       // bytes of all layouts of a tensor
  for (size_t i = 0; i < tables.incidences().size(); ++i) {
    const Incidence& incidence = tables.incidences()[i];
    const int op = list_of[variables.OfOperator(incidence.op)];
    const int tensor = list_of[variables.OfTensor(incidence.tensor)];
    entries_of[{tables.signature(i), op, tensor}] = counts[op] * counts[tensor];
    placed = std::max(placed, counts[tensor] * BytesOfLayout(incidence.tensor));
  }
  std::vector<double> sizes;
  for (const auto& table : entries_of) sizes.push_back(table.second);
  std::sort(sizes.begin(), sizes.end());
  const auto most = static_cast<double>(limits_.max_entries);
  if (leaves_out) LeaveOutLargest(most, &sizes);
  const double entries = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  if (entries > most) {
    throw std::length_error(Text("the tables of the exact search would have more than ",
                                 limits_.max_entries, " entries"));
  }
  max_table_entries_ = sizes.empty() ? 0 : sizes.back();
  Hold(2 * sizeof(int64_t) * entries);  // their sums take as much
  Hold(placed * static_cast<double>(CountThreads()));
}

}  // namespace tofu
