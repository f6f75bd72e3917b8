/*!
 * \file overlaps.cc
 */
#include "core/geometry/overlaps.h"

#include <array>

#include "core/base/byte_loops.h"

namespace tofu {

int BoxLists::Add(const Boxes& boxes) {
  columns_.resize(boxes.rank());
  known_.resize(boxes.rank());
  std::vector<int> numbers;
  for (int d = 0; d < boxes.rank(); ++d) {
    Column column(boxes.count());
    for (int worker = 0; worker < boxes.count(); ++worker) column[worker] = boxes[worker][d];
    const auto found = known_[d].emplace(std::move(column), static_cast<int>(columns_[d].size()));
    if (found.second) columns_[d].push_back(&found.first->first);
    numbers.push_back(found.first->second);
  }
  columns_of_.push_back(std::move(numbers));
  return static_cast<int>(columns_of_.size()) - 1;
}

bool Overlaps::IsSmall(const BoxLists& lists, size_t num_pairs) {
  constexpr size_t kMostLengths = size_t{1} << 20;
  size_t num_columns = 0;
  for (const auto& of_dimension : lists.columns_) num_columns += of_dimension.size();
  return lists.columns_.size() <= kMaxRank && num_pairs * num_columns <= kMostLengths;
}

Overlaps::Overlaps(const Boxes& regions, const std::vector<BoxPair>& pairs, const BoxLists& lists)
    : lists_(lists), fixed_(pairs.size(), 1) {
  for (const BoxPair& pair : pairs) region_volume_ += Volume(regions[pair.region], regions.rank());
  for (size_t d = 0; d < lists.columns_.size(); ++d) {
    std::vector<int64_t> lengths(lists.columns_[d].size() * pairs.size());
    int64_t* length = lengths.data();
    for (const BoxLists::Column* column : lists.columns_[d]) {
      for (const BoxPair& pair : pairs)
        *length++ = Intersect(regions[pair.region][d], (*column)[pair.box]).extent();
    }
    if (lists.columns_[d].size() > 1) {
      varied_.push_back(static_cast<int>(d));
      lengths_.push_back(std::move(lengths));
    } else {
      for (size_t i = 0; i < pairs.size(); ++i) fixed_[i] *= lengths[i];
    }
  }
}

int64_t Overlaps::Count(int list) const {
  const std::vector<int>& columns = lists_.columns_of_[list];
  std::array<const int64_t*, kMaxRank + 1> factors = {fixed_.data()};
  for (size_t i = 0; i < varied_.size(); ++i)
    factors[i + 1] = lengths_[i].data() + columns[varied_[i]] * fixed_.size();
  return SumProducts(factors.data(), varied_.size() + 1, fixed_.size());
}

}  // namespace tofu
