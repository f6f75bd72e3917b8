/*!
 * \file text.h
 * \brief Texts of messages.
 */
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tofu {

/*! \brief Return numbers and texts as one text. */
template <typename... Values>
std::string Text(const Values&... values) {
  std::ostringstream text;
  (text << ... << values);
  return text.str();
}

/*! \brief Throw std::invalid_argument with a text. */
template <typename... Values>
[[noreturn]] void Refuse(const Values&... values) {
  throw std::invalid_argument(Text(values...));
}

}  // namespace tofu
