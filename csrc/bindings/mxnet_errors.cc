/*!
 * \file mxnet_errors.cc
 * \brief Convert MXNet's exceptions to Python's.
 */
#include <regex>
#include <sstream>
#include <string>

#include "bindings/mxnet_conversions.h"

namespace tofu::bindings {
namespace {

/*!
 * \brief Return the lines of a dmlc::Error that tell what is wrong.
 *
 * MXNet writes "[time] file:line: Check failed: expression: message", and below it the addresses of
 * a stack trace. Errors of shape inference begin with "Error in operator name: ".
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
  // The expression is kept if it has the two values of a comparison, or if nothing follows it.
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

}  // namespace tofu::bindings
