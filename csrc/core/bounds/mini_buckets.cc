/*!
 * \file mini_buckets.cc
 * \brief The backward pass, from the roots of the tree of mini-buckets.
 */
#include "core/bounds/mini_buckets.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/parallel.h"
#include "core/bounds/bucket_tree.h"
#include "core/bounds/min_sum.h"

namespace tofu {

namespace {

/*! \brief For each mini-bucket: the least cost of all tables outside it, above the bound, as a
 * table over the scope of its minimum. Null until the first message. */
using AllOthers = std::vector<SharedCosts>;

/*! \brief Messages that a bucket has received and that it sends in the backward pass. */
struct Answer {
  AllOthers others;                   // received, by mini-bucket
  std::vector<SharedCosts> messages;  // sent to the mini-bucket of each minimum: the least cost of
                                      // the other tables; null for tables of the problem
  std::vector<Cost> excess;  // for each value of the variable, the least cost above the bound
};

class WayBack {
 public:
  explicit WayBack(BucketTree tree)
      : tree_(std::move(tree)),
        others_(tree_.mini_buckets.size()),
        num_alike_(tree_.buckets.size(), 0),
        answers_(tree_.buckets.size()) {
    for (const Bucket& bucket : tree_.buckets) ++num_alike_[bucket.alike];
    for (size_t count : tree_.domain_sizes) excess_.emplace_back(count, 0);
  }

  std::vector<std::vector<int64_t>> Run(const MiniBucketPause& pause) {
    for (auto bucket = tree_.buckets.rbegin(); bucket != tree_.buckets.rend(); ++bucket) {
      Visit(*bucket);
      pause(std::exchange(additions_, 0), tree_.num_entries + num_message_entries_);
    }
    return std::move(excess_);
  }

 private:
  /*! \brief Send messages to the mini-buckets below and to the variables of a bucket. */
  void Visit(const Bucket& bucket) {
    const Answer answer = FindAnswer(bucket);
    auto messages = answer.messages.begin();
    for (int m = bucket.first; m < bucket.end; ++m) {
      for (const Factor& factor : tree_.mini_buckets[m].factors) {
        if (factor.mini_bucket >= 0) Send(*messages, &others_[factor.mini_bucket]);
        ++messages;
      }
      tree_.mini_buckets[m] = MiniBucket();
    }
    for (int v : bucket.variables) {
      std::vector<int64_t>& excess = excess_[v];
      for (size_t x = 0; x < excess.size(); ++x)
        excess[x] = std::max(excess[x], answer.excess[x] * tree_.unit);
    }
  }

  /*! \brief Return the messages of a bucket. Buckets with equal tables, equal received messages and
   * minima at the same places share them. */
  Answer FindAnswer(const Bucket& bucket) {
    AllOthers others;
    for (int m = bucket.first; m < bucket.end; ++m) others.push_back(std::move(others_[m]));
    std::vector<Answer>& known = answers_[bucket.alike];
    const auto found = std::find_if(known.begin(), known.end(), [&](const Answer& answer) {
      return SendsToMinima(answer, bucket) &&
             std::equal(others.begin(), others.end(), answer.others.begin(), IsEqual);
    });
    if (found != known.end()) return *found;
    Answer answer = ComputeAnswer(bucket, std::move(others));
    if (num_alike_[bucket.alike] > 1) known.push_back(answer);
    return answer;
  }

  /*! \brief Return true if the same tables of both buckets are minima, and the others are tables of
   * the problem. */
  bool SendsToMinima(const Answer& answer, const Bucket& bucket) const {
    auto messages = answer.messages.begin();
    for (int m = bucket.first; m < bucket.end; ++m) {
      for (const Factor& factor : tree_.mini_buckets[m].factors) {
        if ((factor.mini_bucket >= 0) != (*messages++ != nullptr)) return false;
      }
    }
    return true;
  }

  static bool IsEqual(const SharedCosts& a, const SharedCosts& b) {
    return a == b || (a != nullptr && b != nullptr && *a == *b);
  }

  Answer ComputeAnswer(const Bucket& bucket, AllOthers all_others) {
    Answer answer{std::move(all_others), {}, {}};
    const int v = bucket.variables.front();
    answer.excess.assign(tree_.domain_sizes[v], 0);
    for (int m = bucket.first; m < bucket.end; ++m) {
      const MiniBucket& mini = tree_.mini_buckets[m];
      std::vector<const CostTable*> all = Tables(mini);
      const CostTable others{mini.minimum.scope, answer.others[m - bucket.first]};
      if (!mini.scope.empty()) all.push_back(&others);
      std::vector<CostTable> sums;  // over fewer and fewer variables, but always the bucket's
      for (const Factor& factor : mini.factors) {
        answer.messages.push_back(
            factor.mini_bucket < 0
                ? nullptr
                : Subtract(Narrow(all, factor.table.scope, &sums), factor, mini.least));
      }
      if (!sums.empty()) all = {&sums.back()};
      const CostTable of_values = Project(all, {v}, tree_.domain_sizes, &additions_);
      for (size_t x = 0; x < answer.excess.size(); ++x)
        answer.excess[x] = std::max(answer.excess[x], (*of_values.entries)[x] - mini.least);
    }
    return answer;
  }

  /*! \brief Sum all tables and minimise over all variables that are not in `scope`. Continues from
   * the last sum that holds these variables, if any. */
  const CostTable& Narrow(const std::vector<const CostTable*>& all, const std::vector<int>& scope,
                          std::vector<CostTable>* sums) {
    const auto holds_all = [&](const CostTable& sum) {
      return std::all_of(scope.begin(), scope.end(), [&](int v) { return sum.Holds(v); });
    };
    const auto wider = std::find_if(sums->rbegin(), sums->rend(), holds_all);
    if (wider != sums->rend() && wider->scope == scope) return *wider;
    const std::vector<const CostTable*> from =
        wider == sums->rend() ? all : std::vector<const CostTable*>{&*wider};
    sums->push_back(Project(from, scope, tree_.domain_sizes, &additions_));
    return sums->back();
  }

  /*! \brief Return `sum` without one of its tables, minus `least`. */
  SharedCosts Subtract(const CostTable& sum, const Factor& factor, Cost least) {
    auto rest = std::make_shared<Costs>(sum.entries->size());
    num_message_entries_ += rest->size();
    ParallelFor(rest->size(), kEntriesOfPass, [&](size_t begin, size_t end) {
      for (size_t n = begin; n < end; ++n)
        (*rest)[n] = (*sum.entries)[n] - least - (*factor.table.entries)[n];
    });
    return rest;
  }

  /*! \brief Send a message. If the mini-bucket has received another one, keep the minimum. */
  void Send(const SharedCosts& rest, SharedCosts* others) {
    if (*others == nullptr) {
      *others = rest;
      return;
    }
    auto least = std::make_shared<Costs>(rest->size());
    ParallelFor(least->size(), kEntriesOfPass, [&](size_t begin, size_t end) {
      for (size_t n = begin; n < end; ++n) (*least)[n] = std::min((*rest)[n], (**others)[n]);
    });
    num_message_entries_ += least->size();
    *others = std::move(least);
  }

  BucketTree tree_;
  AllOthers others_;
  std::vector<int> num_alike_;                // by first bucket
  std::vector<std::vector<Answer>> answers_;  // known messages, by first bucket
  std::vector<std::vector<int64_t>> excess_;  // by variable and value, bytes
  size_t num_message_entries_ = 0;            // entries of all messages
  double additions_ = 0;                      // additions since the last pause
};

}  // namespace

MiniBucketBound BoundByMiniBuckets(const PairwiseProblem& problem, int64_t most, size_t max_entries,
                                   const MiniBucketPause& pause) {
  const int64_t unit = std::max<int64_t>((most + kMaxCost - 1) / kMaxCost, 1);
  BucketTree tree = GrowBucketTree(problem, unit, max_entries, pause);
  MiniBucketBound bound;
  bound.bytes = tree.constant * unit;
  bound.largest_table = tree.largest_minimum;
  bound.excess = WayBack(std::move(tree)).Run(pause);
  return bound;
}

}  // namespace tofu
