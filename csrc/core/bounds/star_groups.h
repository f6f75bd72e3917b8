/*!
 * \file star_groups.h
 * \brief The best division of a star's readers (message_passing.h) into groups.
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/byte_loops.h"
#include "core/bounds/message_passing.h"

namespace tofu {

/*! \brief Costs of subsets of a star's readers. Rows have an entry for each value of the centre. */
class StarGroups {
 public:
  /*! \brief Find the cost of each subset in its best partition into groups with one pattern.
   * costs[reader * bytes.size() + pattern] is the cost of a reader. */
  void Set(const std::vector<int64_t>& costs, const std::vector<std::vector<int64_t>>& bytes,
           size_t centres) {
    const size_t readers = costs.size() / bytes.size();
    subsets_ = size_t{1} << readers;
    centres_ = centres;
    sums_.assign(bytes.size() * subsets_, 0);
    alone_.assign(subsets_ * centres, kNobodyAsks);
    parted_.assign(subsets_ * centres, 0);
    for (size_t pattern = 0; pattern < bytes.size(); ++pattern) {
      int64_t* sums = sums_.data() + pattern * subsets_;
      for (size_t reader = 0; reader < readers; ++reader) {
        const int64_t cost = costs[reader * bytes.size() + pattern];
        const size_t bit = size_t{1} << reader;
        for (size_t subset = 0; subset < bit; ++subset)
          sums[bit | subset] = std::min(sums[subset] + cost, kNobodyAsks);
      }
      for (size_t subset = 1; subset < subsets_; ++subset) {
        if (sums[subset] < kNobodyAsks)
          LowerTo(sums[subset], bytes[pattern].data(), centres_, Row(&alone_, subset));
      }
    }
    for (size_t set = 1; set < subsets_; ++set) Part(set);
  }

  /*! \brief The least cost of all readers, by value of the centre. */
  const int64_t* All() const { return parted_.data() + (subsets_ - 1) * centres_; }

  /*! \brief The least cost of all readers, if some join a group with this pattern for free. */
  void Join(size_t pattern, std::vector<int64_t>* least) const {
    const int64_t* sums = sums_.data() + pattern * subsets_;
    least->assign(centres_, kNobodyAsks);
    for (size_t group = 0; group < subsets_; ++group) {
      if (sums[group] < kNobodyAsks)
        LowerTo(sums[group], parted_.data() + (subsets_ - 1 - group) * centres_, centres_,
                least->data());
    }
  }

 private:
  int64_t* Row(std::vector<int64_t>* rows, size_t subset) const {
    return rows->data() + subset * centres_;
  }

  void Part(size_t set) {
    const size_t lowest = set & (~set + 1);
    int64_t* parted = Row(&parted_, set);
    std::copy_n(Row(&alone_, set), centres_, parted);
    for (size_t group = (set - 1) & set; group > 0; group = (group - 1) & set) {
      if ((group & lowest) != 0)
        LowerToSum(Row(&alone_, group), Row(&parted_, set ^ group), centres_, parted);
    }
  }

  size_t subsets_ = 1;
  size_t centres_ = 0;
  std::vector<int64_t> sums_;   // [pattern * subsets_ + subset]: cost of the readers at the pattern
  std::vector<int64_t> alone_;  // rows by subset: cost of the subset as one group
  std::vector<int64_t> parted_;  // rows by subset: cost of its best partition into groups
};

}  // namespace tofu
