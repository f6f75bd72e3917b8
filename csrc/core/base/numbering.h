/*!
 * \file numbering.h
 * \brief Numbers for distinct keys, which may be of any length.
 */
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tofu {

/*! \brief Return numbers as the bytes of a string, to be used as a key. */
template <typename Number>
std::string AsKey(const Number* data, size_t count) {
  return std::string(reinterpret_cast<const char*>(data), count * sizeof(Number));
}

/*! \brief Assigns the numbers 0, 1, 2, ... to distinct keys in the order of their first use. */
class Numbering {
 public:
  /*! \brief Return the number of a key, and true if the key is new. */
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
