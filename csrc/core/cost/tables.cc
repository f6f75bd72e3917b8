/*!
 * \file tables.cc
 */
#include "core/cost/tables.h"

#include <algorithm>
#include <map>
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

CostTables::CostTables(SharedIncidences incidences, WorkerGrid grid, Tabulate tabulate)
    : numbered_(std::move(incidences)), tabulate_(std::move(tabulate)), grid_(std::move(grid)) {}

ChoiceList CostTables::Intern(std::vector<std::vector<int>> choices) {
  std::vector<int64_t> flat = {static_cast<int64_t>(choices.size())};
  for (const std::vector<int>& choice : choices)
    flat.insert(flat.end(), choice.begin(), choice.end());
  return {lists_.Of(flat), std::move(choices)};
}

const std::vector<int64_t>& CostTables::Get(size_t incidence, const ChoiceList& operator_choices,
                                            const ChoiceList& layouts) const {
  return tables_.at(KeyOf({incidence, &operator_choices, &layouts}));
}

size_t CostTables::Prepare(const std::vector<Request>& requests,
                           const std::function<void()>& pause) {
  constexpr size_t kBatch = 64;
  size_t entries = 0;
  std::vector<std::pair<const Request*, std::vector<int64_t>*>> missing;
  for (const Request& request : requests) {
    const auto found = tables_.try_emplace(KeyOf(request));
    if (!found.second) continue;
    missing.emplace_back(&request, &found.first->second);
    entries += request.operator_choices->choices.size() * request.layouts->choices.size();
  }
  for (size_t begin = 0; begin < missing.size(); begin += kBatch) {
    const size_t end = std::min(begin + kBatch, missing.size());
    ParallelFor(end - begin, 1, [&](size_t first, size_t last) {
      for (size_t i = begin + first; i < begin + last; ++i) {
        const Request& request = *missing[i].first;
        *missing[i].second = tabulate_(numbered_->graph, incidences()[request.incidence], grid_,
                                       request.operator_choices->choices, request.layouts->choices);
      }
    });
    pause();
  }
  return entries;
}

std::string CostTables::KeyOf(const Request& request) const {
  const int key[] = {signature(request.incidence), request.operator_choices->id,
                     request.layouts->id};
  return AsKey(key, 3);
}

namespace {

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

/*! \brief Compute the overlaps of an access with all layouts in `lists`, which must stay alive.
 * Leaves out overlaps that would be too large, and those of scalars. */
void FindOverlaps(const BoxLists& lists, bool is_write, PlacedAccess* access) {
  const bool is_exchanged = is_write && access->copies == 0;
  const bool has_many_workers = access->regions.front().count() > kMostPairedWorkers;
  if (access->regions.front().rank() == 0) return;
  if (is_exchanged && (access->own.count() > 0 || has_many_workers)) return;
  for (size_t i = 0; i < access->regions.size(); ++i) {
    const std::vector<BoxPair> pairs = ListPairs(*access, i, is_write);
    if (!Overlaps::IsSmall(lists, pairs.size())) {
      access->overlaps.clear();
      return;
    }
    access->overlaps.emplace_back(access->regions[i], pairs, lists);
  }
}

/*! \brief Call `visit` with the access of each choice, and the shards of all layouts. */
void VisitAccesses(
    const Graph& graph, const Incidence& incidence, const WorkerGrid& grid,
    const std::vector<std::vector<int>>& choices, const std::vector<std::vector<int>>& layouts,
    const std::function<void(const PlacedAccess&, const std::vector<PlacedLayout>&)>& visit) {
  std::vector<PlacedLayout> placed_layouts;
  placed_layouts.reserve(layouts.size());
  BoxLists lists;
  for (const std::vector<int>& layout : layouts) {
    PlacedLayout placed = PlaceLayout(graph, incidence.tensor, grid, layout);
    placed.shards_list = lists.Add(placed.shards);
    if (placed.can_scatter) placed.scattered_list = lists.Add(placed.scattered);
    placed_layouts.push_back(std::move(placed));
  }
  for (const std::vector<int>& choice : choices) {
    PlacedAccess access = PlaceAccess(graph, incidence, grid, choice);
    FindOverlaps(lists, incidence.is_write, &access);
    visit(access, placed_layouts);
  }
}

/*! \brief Different choices, and for each of a list of choices its number. */
struct DifferentChoices {
  std::vector<std::vector<int>> choices;
  std::vector<size_t> numbers;

  DifferentChoices(const std::vector<std::vector<int>>& all, int rounds) {
    std::map<std::vector<int>, size_t> known;
    for (const std::vector<int>& choice : all) {
      const auto found = known.emplace(FirstRounds(choice, rounds), choices.size());
      if (found.second) choices.push_back(found.first->first);
      numbers.push_back(found.first->second);
    }
  }
};

/*! \brief The elements that workers fetch on the grid of the first rounds. */
class PrefixCells {
 public:
  enum class Way : char { kForbidden, kOnce, kScattered };

  PrefixCells(const Graph& graph, const Incidence& incidence, const WorkerGrid& grid, int rounds,
              const std::vector<std::vector<int>>& choices,
              const std::vector<std::vector<int>>& layouts)
      : choices_(choices, rounds),
        layouts_(layouts, rounds),
        num_fetches_(incidence.is_write ? 1 : incidence.reads.size()) {
    const size_t num_entries = choices_.choices.size() * layouts_.choices.size();
    cells_.reserve(num_entries * num_fetches_);
    ways_.reserve(num_entries);
    const auto add = [&](const PlacedAccess& access, const std::vector<PlacedLayout>& placed) {
      for (const PlacedLayout& layout : placed) {
        for (size_t fetch = 0; fetch < num_fetches_; ++fetch)
          cells_.push_back(CountCells(access, fetch, layout, incidence.is_write));
        ways_.push_back(incidence.is_write && IsScattered(access, layout)       ? Way::kScattered
                        : !incidence.is_write && !IsHeld(access, layout.shards) ? Way::kForbidden
                                                                                : Way::kOnce);
      }
    };
    VisitAccesses(graph, incidence, grid.UnpricedPrefix(rounds), choices_.choices, layouts_.choices,
                  add);
  }

  size_t num_fetches() const { return num_fetches_; }
  Way way(size_t choice, size_t layout) const { return ways_[Entry(choice, layout)]; }
  int64_t cells(size_t choice, size_t layout, size_t fetch) const {
    return cells_[Entry(choice, layout) * num_fetches_ + fetch];
  }

 private:
  size_t Entry(size_t choice, size_t layout) const {
    return choices_.numbers[choice] * layouts_.choices.size() + layouts_.numbers[layout];
  }

  DifferentChoices choices_;
  DifferentChoices layouts_;
  size_t num_fetches_;
  std::vector<int64_t> cells_;
  std::vector<Way> ways_;
};

/*! \brief TabulateIncidence if the graph relays in groups and the grid has prices. Choices that
 * begin with the same rounds share the counts of these rounds. */
std::vector<int64_t> TabulateRelayed(const Graph& graph, const Incidence& incidence,
                                     const WorkerGrid& grid,
                                     const std::vector<std::vector<int>>& choices,
                                     const std::vector<std::vector<int>>& layouts) {
  std::vector<PrefixCells> prefixes;
  for (int rounds = 1; rounds <= grid.num_rounds(); ++rounds)
    prefixes.emplace_back(graph, incidence, grid, rounds, choices, layouts);
  const PrefixCells& all = prefixes.back();
  RelayedCounter counter(grid, graph.tensor(incidence.tensor));
  std::vector<int64_t> totals(grid.num_rounds());
  std::vector<int64_t> costs(choices.size() * layouts.size(), kForbiddenBytes);
  for (size_t entry = 0; entry < costs.size(); ++entry) {
    const size_t choice = entry / layouts.size(), layout = entry % layouts.size();
    const PrefixCells::Way way = all.way(choice, layout);
    if (way == PrefixCells::Way::kForbidden) continue;
    counter.Clear();
    for (size_t fetch = 0; fetch < all.num_fetches(); ++fetch) {
      for (size_t round = 0; round < prefixes.size(); ++round)
        totals[round] = prefixes[round].cells(choice, layout, fetch);
      counter.Add(totals, way == PrefixCells::Way::kScattered);
    }
    costs[entry] = PriceOf(counter.counts(), grid);
  }
  return costs;
}

}  // namespace

std::vector<int64_t> TabulateIncidence(const Graph& graph, const Incidence& incidence,
                                       const WorkerGrid& grid,
                                       const std::vector<std::vector<int>>& choices,
                                       const std::vector<std::vector<int>>& layouts) {
  if (grid.has_prices() && graph.relays_in_groups())
    return TabulateRelayed(graph, incidence, grid, choices, layouts);
  const Tensor& tensor = graph.tensor(incidence.tensor);
  std::vector<int64_t> bytes;
  bytes.reserve(choices.size() * layouts.size());
  VisitAccesses(graph, incidence, grid, choices, layouts,
                [&](const PlacedAccess& access, const std::vector<PlacedLayout>& placed) {
                  for (const PlacedLayout& layout : placed)
                    bytes.push_back(IncidenceBytes(incidence, access, layout, grid, tensor));
                });
  return bytes;
}

}  // namespace tofu
