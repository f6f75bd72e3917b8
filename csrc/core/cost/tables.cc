/*!
 * \file tables.cc
 */
#include "core/cost/tables.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/base/parallel.h"
#include "core/cost/sharing.h"
#include "core/geometry/overlaps.h"

namespace tofu {

NumberedIncidences::NumberedIncidences(const Graph& graph)
    : graph(graph), incidences(CollectIncidences(graph, FindBoundSharers(graph))) {
  Numbering numbers;
  signatures.reserve(incidences.size());
  for (const Incidence& incidence : incidences)
    signatures.push_back(numbers.Of(DescribeIncidence(graph, incidence)));
}

CostTables::CostTables(SharedIncidences incidences, Tabulate tabulate)
    : numbered_(std::move(incidences)), tabulate_(std::move(tabulate)), grid_({}) {}

void CostTables::SetGrid(WorkerGrid grid) {
  grid_ = std::move(grid);
  tables_.clear();
}

ChoiceList CostTables::Intern(std::vector<std::vector<int>> choices) {
  std::vector<int64_t> flat = {static_cast<int64_t>(choices.size())};
  for (const std::vector<int>& choice : choices)
    flat.insert(flat.end(), choice.begin(), choice.end());
  return {lists_.Of(flat), std::move(choices)};
}

const std::vector<int64_t>& CostTables::Get(size_t incidence, const ChoiceList& operator_choices,
                                            const ChoiceList& layouts) {
  const auto found = tables_.try_emplace(KeyOf({incidence, &operator_choices, &layouts}));
  if (found.second) found.first->second = Compute({incidence, &operator_choices, &layouts});
  return found.first->second;
}

size_t CostTables::CountMissingEntries(const std::vector<Request>& requests) const {
  std::unordered_set<std::string> missing;
  size_t entries = 0;
  for (const Request& request : requests) {
    std::string text = KeyOf(request);
    if (tables_.count(text) == 0 && missing.insert(std::move(text)).second)
      entries += request.operator_choices->choices.size() * request.layouts->choices.size();
  }
  return entries;
}

void CostTables::Prepare(const std::vector<Request>& requests, const std::function<void()>& pause) {
  constexpr size_t kBatch = 64;
  std::vector<std::pair<const Request*, std::vector<int64_t>*>> missing;
  for (const Request& request : requests) {
    const auto found = tables_.try_emplace(KeyOf(request));
    if (found.second) missing.emplace_back(&request, &found.first->second);
  }
  for (size_t begin = 0; begin < missing.size(); begin += kBatch) {
    const size_t end = std::min(begin + kBatch, missing.size());
    ParallelFor(end - begin, 1, [&](size_t first, size_t last) {
      for (size_t i = begin + first; i < begin + last; ++i) {
        *missing[i].second = Compute(*missing[i].first);
      }
    });
    pause();
  }
}

std::string CostTables::KeyOf(const Request& request) const {
  const int key[] = {signature(request.incidence), request.operator_choices->id,
                     request.layouts->id};
  return AsKey(key, 3);
}

std::vector<int64_t> CostTables::Compute(const Request& request) const {
  return tabulate_(numbered_->graph, incidences()[request.incidence], grid_,
                   request.operator_choices->choices, request.layouts->choices);
}

namespace {

/*! \brief Lists of the shards of many layouts, and of those on the grids of the first rounds. */
struct LayoutLists {
  BoxLists boxes;
  std::vector<LayoutLists> prefixes;
};

/*! \brief List the pairs of workers whose boxes and regions a count of the access intersects. */
std::vector<BoxPair> ListPairs(const PlacedAccess& access, size_t region, bool is_write) {
  const int workers = access.regions[region].count();
  const bool is_exchanged = is_write && access.copies == 0;
  std::vector<BoxPair> pairs;
  for (int worker = 0; worker < workers; ++worker) {
    if (!is_exchanged) {
      if (is_write || access.is_charged[region][worker]) pairs.push_back({worker, worker});
      continue;
    }
    for (int holder = 0; holder < workers; ++holder) {
      if (holder != worker && access.replica[holder] == access.replica[worker])
        pairs.push_back({worker, holder});
    }
  }
  return pairs;
}

/*! \brief Add the boxes of a layout, and set their numbers in it. */
void AddToLists(PlacedLayout* layout, LayoutLists* lists) {
  layout->shards_list = lists->boxes.Add(layout->shards);
  if (layout->can_scatter) layout->scattered_list = lists->boxes.Add(layout->scattered);
  lists->prefixes.resize(layout->prefixes.size());
  for (size_t i = 0; i < layout->prefixes.size(); ++i)
    AddToLists(&layout->prefixes[i], &lists->prefixes[i]);
}

/*! \brief Compute the overlaps of an access with all layouts in `lists`, which must stay alive.
 * Leaves out overlaps that would be too large, and those of scalars. */
void FindOverlaps(const LayoutLists& lists, bool is_write, PlacedAccess* access) {
  for (size_t i = 0; i < access->prefixes.size(); ++i)
    FindOverlaps(lists.prefixes[i], is_write, &access->prefixes[i]);
  access->overlaps.clear();
  const bool is_exchanged = is_write && access->copies == 0;
  const bool has_many_workers = access->regions.front().count() > kMostPairedWorkers;
  if (access->regions.front().rank() == 0) return;
  if (is_exchanged && (access->own.count() > 0 || has_many_workers)) return;
  for (size_t i = 0; i < access->regions.size(); ++i) {
    const std::vector<BoxPair> pairs = ListPairs(*access, i, is_write);
    if (!Overlaps::IsSmall(lists.boxes, pairs.size())) {
      access->overlaps.clear();
      return;
    }
    access->overlaps.emplace_back(access->regions[i], pairs, lists.boxes);
  }
}

}  // namespace

std::vector<int64_t> TabulateIncidence(const Graph& graph, const Incidence& incidence,
                                       const WorkerGrid& grid,
                                       const std::vector<std::vector<int>>& choices,
                                       const std::vector<std::vector<int>>& layouts) {
  const Tensor& tensor = graph.tensor(incidence.tensor);
  std::vector<PlacedLayout> placed;
  placed.reserve(layouts.size());
  LayoutLists lists;
  for (const std::vector<int>& layout : layouts) {
    placed.push_back(PlaceLayout(graph, incidence.tensor, grid, layout));
    AddToLists(&placed.back(), &lists);
  }
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * placed.size());
  for (const std::vector<int>& choice : choices) {
    PlacedAccess access = PlaceAccess(graph, incidence, grid, choice);
    FindOverlaps(lists, incidence.is_write, &access);
    for (const PlacedLayout& layout : placed)
      bytes.push_back(IncidenceBytes(incidence, access, layout, grid, tensor));
  }
  return bytes;
}

}  // namespace tofu
