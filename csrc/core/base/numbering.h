/*!
 * \file numbering.h
 * \brief Small numbers for long descriptions.
 */
#ifndef TOFU_CORE_BASE_NUMBERING_H_
#define TOFU_CORE_BASE_NUMBERING_H_

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tofu {

/*! \brief The bytes of some numbers, as a key. */
template <typename Number>
std::string AsKey(const Number* data, size_t count) {
  return std::string(reinterpret_cast<const char*>(data), count * sizeof(Number));
}

/*! \brief Numbers descriptions from 0 on, as they are first asked for. */
class Numbering {
 public:
  /*! \brief The number of a description, and whether it is new. */
  std::pair<int, bool> Add(std::string key) {
    const auto found = numbers_.emplace(std::move(key), static_cast<int>(numbers_.size()));
    return {found.first->second, found.second};
  }

  template <typename Number>
  int Of(const std::vector<Number>& description) {
    return Add(AsKey(description.data(), description.size())).first;
  }

 private:
  std::unordered_map<std::string, int> numbers_;
};

}  // namespace tofu

#endif  // TOFU_CORE_BASE_NUMBERING_H_
