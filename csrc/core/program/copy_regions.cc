/*!
 * \file copy_regions.cc
 */
#include "core/program/copy_regions.h"

namespace tofu {

Reading& CopyRegions::Read(int op, const Input& input) {
  const std::vector<int>& choice = assignment_.operators[op];
  Incidence read;
  read.op = op;
  read.tensor = input.tensor;
  read.reads = {&input};
  const auto [found, is_new] = readings_.try_emplace(
      DescribePlaced(graph_, read, choice, assignment_.tensors[input.tensor]));
  Reading& reading = found->second;
  if (!is_new) return reading;
  reading.needed = FindNeededRegions(input, graph_.tensor(input.tensor).shape,
                                     SplitAxes(graph_, grid_, op, choice), choice);
  for (int worker = 0; worker < grid_.num_workers(); ++worker)
    reading.is_zero.push_back(IsZeroAddend(input, grid_, choice, worker));
  reading.owners.resize(grid_.num_workers());
  return reading;
}

const Boxes& CopyRegions::Written(int op, const Output& output) {
  const std::vector<int>& choice = assignment_.operators[op];
  const std::vector<int64_t>& shape = graph_.tensor(output.tensor).shape;
  const bool is_fetched = graph_.op(op).IsFetched(choice);
  const auto [found, is_new] = written_.try_emplace(
      DescribePlaced(graph_, MakeWrite(op, output), choice, {static_cast<int>(is_fetched)}));
  Boxes& regions = found->second;
  if (!is_new) return regions;
  regions = WrittenRegions(output, shape, SplitAxes(graph_, grid_, op, choice), choice);
  if (is_fetched) regions = ClipBoxes(regions, shape);
  return regions;
}

}  // namespace tofu
