/*!
 * \file exact_state.h
 * \brief State of the exact search: the best plan, the bound, and the effort and memory spent.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

#include "core/elimination/pairwise.h"
#include "core/search/exact.h"

namespace tofu {

/*! \brief Return the bytes of the distinct tables of a problem. */
double CountTableBytes(const PairwiseProblem& problem);

/*! \brief Limit of the operations of an elimination, which then takes seconds. */
constexpr double kMaxOperations = 3e9;

/*! \brief Additions of contiguous bytes per second on two cores. */
constexpr double kAdditionsPerSecond = 8e9;

/*! \brief Additions that a step for a variable counts for, such as a copy of its tables or its
 * place in an order of elimination. */
constexpr double kAdditionsPerVariable = 2e4;

class ExactState {
 public:
  ExactState(const ExactLimits& limits, const ExactProgress& progress);

  /*! \brief Count processor time from now on. */
  void StartClock() { started_ = std::clock(); }

  bool has_plan() const { return !values_.empty(); }
  /*! \brief The best plan, as values of the whole problem. */
  const std::vector<int>& values() const { return values_; }
  Weight weight() const { return weight_; }
  int64_t bytes() const { return WeightBytes(weight_); }
  int64_t bound() const { return bound_; }
  bool is_optimal() const { return is_optimal_; }

  /*! \brief Count work, in additions. */
  void Spend(double additions) { spent_ += additions / kAdditionsPerSecond; }

  /*! \brief Count the effort of another search. */
  void AddSeconds(double seconds) { spent_ += seconds; }

  /*! \brief Count bytes of tables that are held at the same time. */
  void Hold(double bytes) { held_bytes_ = std::max(held_bytes_, static_cast<int64_t>(bytes)); }
  int64_t held_bytes() const { return held_bytes_; }

  /*! \brief Count a sweep of message passing. */
  void CountSweep() { ++num_sweeps_; }
  int num_sweeps() const { return num_sweeps_; }

  /*! \brief Return the remaining seconds, counted in work. */
  double SecondsLeft() const { return limits_.seconds - spent_; }

  /*! \brief Return true if `share` of the work is done, the processor time is far beyond it, or no
   * plan is better than one found elsewhere. */
  bool IsOver(double share = 1) const;

  /*! \brief Report this cost until the state has a plan. */
  void SetStart(int64_t bytes) { start_bytes_ = bytes; }

  /*! \brief Call the progress function, which may throw an exception to stop the search. */
  void Report(const char* stage) const;

  /*! \brief Return limits for another search with a share of the remaining effort. */
  ExactLimits MakeLimits(double share) const;

  /*! \brief Make values of a part the best plan if they are better. */
  void Offer(const Part& part, const std::vector<int>& values);

  /*! \brief Make values of the whole problem the best plan if they are better. `weight` may include
   * stars. */
  void Offer(const std::vector<int>& values, Weight weight);

  /*! \brief Add the effort of another search. */
  void TakeEffort(const ExactState& other);

  void RaiseBound(int64_t bytes);

  /*! \brief Estimate the elimination of some values of a problem. */
  EliminationEstimate Estimate(const PairwiseProblem& problem, const KeptValues& kept);

  /*! \brief Return true if time and memory suffice for an elimination. */
  bool Fits(const EliminationEstimate& estimate, double most_operations) const;

  /*! \brief Eliminate a part if it fits, and offer its best plan. Return the least bytes, or -1. */
  int64_t Solve(const Part& part, double most_operations = kMaxOperations);

  /*! \brief Mark the best plan as optimal. */
  void Prove();

  /*! \brief Remove dominated values repeatedly. Dominating values replace them in the best plan. */
  void DropDominated(Part* part);

 private:
  double MostProcessorSeconds() const;
  double ProcessorSeconds() const;

  const ExactLimits& limits_;
  const ExactProgress& progress_;
  std::clock_t started_;
  double spent_ = 0;          // seconds, counted in work
  int64_t start_bytes_ = -1;  // cost of a plan that is not in `values_`
  int64_t held_bytes_ = 0;    // most bytes at one time
  int num_sweeps_ = 0;
  std::vector<int> values_;
  Weight weight_ = 0;
  int64_t bound_ = 0;
  bool is_optimal_ = false;
};

}  // namespace tofu
