/*!
 * \file exact_state.h
 * \brief What the exact search works on and knows at each moment: the values that are left, the
 * best plan, the bound, the time.
 */
#ifndef TOFU_CORE_SEARCH_EXACT_STATE_H_
#define TOFU_CORE_SEARCH_EXACT_STATE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/elimination/pairwise.h"
#include "core/search/exact.h"

namespace tofu {

/*! \brief Of the distinct tables of a problem. */
double CountTableBytes(const PairwiseProblem& problem);

/*! \brief Operations of an elimination that ends in seconds. */
constexpr double kMaxOperations = 3e9;

/*! \brief Additions of bytes that two cores make in a second where they lie in a row. */
constexpr double kAdditionsPerSecond = 8e9;

class ExactState {
 public:
  ExactState(const ExactLimits& limits, const ExactProgress& progress);

  bool has_plan() const { return !values_.empty(); }
  /*! \brief Of the best plan, in values of the whole problem. */
  const std::vector<int>& values() const { return values_; }
  Weight weight() const { return weight_; }
  int64_t bytes() const { return WeightBytes(weight_); }
  int64_t bound() const { return bound_; }
  bool is_optimal() const { return is_optimal_; }

  /*! \brief Counts work, in additions of bytes. */
  void Spend(double additions) { spent_ += additions / kAdditionsPerSecond; }

  /*! \brief Notes that tables of so many bytes are held at the same time. */
  void Hold(double bytes) { held_bytes_ = std::max(held_bytes_, static_cast<int64_t>(bytes)); }
  int64_t held_bytes() const { return held_bytes_; }

  /*! \brief Of the time that may be spent, by the work that was counted. */
  double SecondsLeft() const { return limits_.seconds - spent_; }

  /*! \brief Whether `share` of the work is done that may be done, or the clock says that it takes
   * far longer. */
  bool IsOver(double share = 1) const;

  /*! \brief Tells the caller, who may throw to stop. */
  void Report(const char* stage) const;

  /*! \brief The limits of a search that may spend this part of the effort that is left. */
  ExactLimits MakeLimits(double share) const;

  /*! \brief Takes values of a part for the best plan if they are better. */
  void Offer(const Part& part, const std::vector<int>& values);

  /*! \brief The same for values of the whole problem, which may be more than a pairwise one. */
  void Offer(const std::vector<int>& values, Weight weight);

  /*! \brief Adds what another search took. */
  void TakeEffort(const ExactState& other);

  void RaiseBound(int64_t bytes);

  /*! \brief Whether elimination has the tables and the time for a problem. */
  bool Fits(const EliminationEstimate& estimate, double most_operations) const;

  /*! \brief Eliminates a part if it fits and offers its best plan; the least bytes, or -1. */
  int64_t Solve(const Part& part, double most_operations = kMaxOperations);

  /*! \brief The best plan is the best of all. */
  void Prove();

  /*! \brief Drops dominated values until there are none; values that dominate them take their place
   * in the best plan. */
  void DropDominated(Part* part);

 private:
  double ClockSeconds() const;
  double SecondsPassed() const;

  const ExactLimits& limits_;
  const ExactProgress& progress_;
  std::chrono::steady_clock::time_point started_;
  double spent_ = 0;        // seconds, by the work
  int64_t held_bytes_ = 0;  // by all tables, at most
  std::vector<int> values_;
  Weight weight_ = 0;
  int64_t bound_ = 0;
  bool is_optimal_ = false;
};

}  // namespace tofu

#endif  // TOFU_CORE_SEARCH_EXACT_STATE_H_
