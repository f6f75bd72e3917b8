/*!
 * \file check.h
 * \brief Checks, a random generator and element sets of the C++ tests.
 */
#pragma once

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "core/geometry/geometry.h"

namespace tofu_test {

inline int& NumFailures() {
  static int failures = 0;
  return failures;
}

inline void Report(bool holds, const char* text, const char* file, int line) {
  if (holds) return;
  std::printf("%s:%d: does not hold: %s\n", file, line, text);
  ++NumFailures();
}

/*! \brief Run `action`, which must throw `Error` with `part` in its message. */
template <typename Error, typename Action>
void ReportThrow(Action action, const std::string& part, const char* file, int line) {
  try {
    action();
  } catch (const Error& error) {
    if (std::string(error.what()).find(part) != std::string::npos) return;
    std::printf("%s:%d: message '%s' lacks '%s'\n", file, line, error.what(), part.c_str());
    ++NumFailures();
    return;
  }
  std::printf("%s:%d: nothing was thrown\n", file, line);
  ++NumFailures();
}

#define CHECK(condition) tofu_test::Report((condition), #condition, __FILE__, __LINE__)
#define CHECK_THROWS(Error, action, part) \
  tofu_test::ReportThrow<Error>([&] { action; }, part, __FILE__, __LINE__)

/*! \brief The exit status of a test's main. */
inline int Finish(const char* name) {
  std::printf("%s: %s\n", name, NumFailures() == 0 ? "passed" : "FAILED");
  return NumFailures() == 0 ? 0 : 1;
}

/*! \brief Portable random generator (xorshift64*). */
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2685821657736338717u + 88172645463325252u) {}

  /*! \brief Return a number of [low, high]. */
  int64_t Draw(int64_t low, int64_t high) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const uint64_t bits = (state_ * 2685821657736338717u) >> 11;
    return low + static_cast<int64_t>(bits % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

using Cell = std::vector<int64_t>;
using Cells = std::set<Cell>;

/*! \brief Return every element of a box. */
inline Cells CellsOf(const tofu::Interval* box, int rank) {
  Cells cells = {Cell()};
  for (int d = 0; d < rank; ++d) {
    Cells longer;
    for (const Cell& cell : cells) {
      for (int64_t i = box[d].begin; i < box[d].end; ++i) {
        Cell next = cell;
        next.push_back(i);
        longer.insert(next);
      }
    }
    cells = longer;
  }
  return cells;
}

}  // namespace tofu_test
