/*!
 * \file mxnet_errors.cc
 * \brief MXNet's exceptions as Python's.
 */
#include <regex>
#include <sstream>
#include <string>

#include "bindings/mxnet_conversions.h"

namespace tofu {
namespace bindings {
namespace {

/*!
 * \brief The lines of a dmlc::Error that say what is wrong.
 *
 * MXNet writes "[time] file:line: Check failed: expression: message", and the addresses of a stack
 * trace below it; inference puts "Error in operator name: " in front.
 */
std::string KeepMessage(const std::string& what) {
  std::string message;
  std::istringstream lines(what);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 11, "Stack trace") == 0) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    message += message.empty() ? line : "\n" + line;
  }
  static const std::regex stamp(R"(\[\d+:\d+:\d+\] [^ ]+:\d+: )");
  // The expression stays where it holds the two values of a comparison, or where nothing comes
  // after.
  static const std::regex expression(R"(Check failed: (?:[^:v]|::|v(?!s\. ))*: (?=\S))");
  return std::regex_replace(std::regex_replace(message, stamp, ""), expression, "");
}

}  // namespace

void RegisterErrors() {
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const dmlc::Error& e) {
      PyErr_SetString(PyExc_RuntimeError, KeepMessage(e.what()).c_str());
    }
  });
}

}  // namespace bindings
}  // namespace tofu
