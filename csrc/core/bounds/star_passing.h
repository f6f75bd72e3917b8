/*!
 * \file star_passing.h
 * \brief A lower bound on a problem of pairs and stars by message passing.
 *
 * A star is the price of what several readers share: it costs, beside the value of its centre, the
 * bytes of each distinct pattern among those that the values of its readers ask for. Written as a
 * table it would have as many entries as all its variables have values together; its least cost
 * beside each value of one of them needs none: readers of equal pattern form a group, and beside
 * each value of the centre the best partition into groups comes from the best pattern of each
 * subset. That takes (values of the centre) times (patterns) times 2^(readers) steps.
 *
 * Messages move bytes between the functions of the sum without changing it, sequentially as in
 * bound.h (Kolmogorov, IEEE PAMI 37(5), 2015, has the form for functions of more than two
 * variables): a variable in turn takes what its functions cost at least beside each of its values,
 * and gives equal shares to those that go on in the direction of the sweep. The sum of what all
 * functions and variables cost at least is the bound, an integer.
 */
#ifndef TOFU_CORE_BOUNDS_STAR_PASSING_H_
#define TOFU_CORE_BOUNDS_STAR_PASSING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/elimination/pairwise.h"

namespace tofu {

struct Star {
  struct Reader {
    int variable;
    std::vector<int> patterns;  // by value
  };

  int centre = -1;
  std::vector<Reader> readers;
  std::vector<std::vector<int64_t>> bytes;  // by pattern and value of the centre
};

/*! \brief What a star costs at these values of all variables. */
int64_t EvaluateStar(const Star& star, const std::vector<int>& values);

/*! \brief The star over the kept values alone; patterns keep their numbers. */
Star RestrictStar(const Star& star, const KeptValues& kept);

/*! \brief What a star costs above its least once the messages have moved bytes: the price of the
 * patterns that are fetched, `centre` of its value there, and `readers` of the pattern of each. */
struct StarExcess {
  std::vector<int64_t> centre;                // by value; less the least
  std::vector<std::vector<int64_t>> readers;  // by reader and pattern, kNobodyAsks where it cannot
};
constexpr int64_t kNobodyAsks = int64_t{1} << 56;  // sums of some tens of these do not overflow

class StarPassing {
 public:
  /*! \brief Sweeps go along `order`, all variables, and back. The problem must outlive this. A star
   * of many readers counts in parts, and for less than it costs. */
  StarPassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
              const std::vector<int>& order);

  /*! \brief Carries on with the messages of a larger problem, of which `kept` values are left. */
  StarPassing(const PairwiseProblem& problem, const std::vector<Star>& stars,
              const std::vector<int>& order, const StarPassing& larger, const KeptValues& kept);

  /*! \brief One sweep forward and one back. */
  void Sweep();

  /*! \brief Bytes that no assignment goes below. Fills in what each value costs above that at
   * least, by variable and value. */
  int64_t ComputeBound(std::vector<std::vector<int64_t>>* reduced) const;

  /*! \brief By star: with all else at its least, an assignment costs as much more than the bound as
   * one star does above its least. Nothing for a star that counts in parts. */
  std::vector<StarExcess> FindExcess() const;

  /*! \brief Steps of a sweep. */
  double CountSteps() const;

 private:
  struct Function {
    std::vector<int> variables;        // of a star its centre first
    const ByteMatrix* pair = nullptr;  // or a star
    Star star = {};
    int number = -1;                               // of the whole star; -1 of pairs and of parts
    std::vector<std::vector<int64_t>> moved = {};  // by position in `variables`: bytes moved here
    int settled = -1;  // the position whose variable took all that there is, nothing moved since
  };
  struct Place {
    int function;
    int position;
  };

  void AddStar(const Star& star, int number);
  std::vector<int64_t> FindLeast(const Function& function, int position) const;
  void Visit(int variable, bool forward);

  size_t num_stars_;
  std::vector<Function> functions_;
  std::vector<std::vector<Place>> around_;  // by variable
  std::vector<std::vector<int64_t>> own_;   // by variable: the bytes of its values that nobody has
  std::vector<int> order_;
  std::vector<int> places_;  // by variable, in the order
};

}  // namespace tofu

#endif  // TOFU_CORE_BOUNDS_STAR_PASSING_H_
