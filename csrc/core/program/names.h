/*!
 * \file names.h
 * \brief What the workers and their shards are called wherever a framework asks for names.
 */
#ifndef TOFU_CORE_PROGRAM_NAMES_H_
#define TOFU_CORE_PROGRAM_NAMES_H_

#include <cstdint>
#include <string>

namespace tofu {

/*! \brief The group of a worker's nodes in an execution graph. */
inline std::string NameGroup(int64_t worker) { return "tofu_worker_" + std::to_string(worker); }

/*! \brief What a worker has of a tensor or an operator: its shard, its copy. */
inline std::string NameShard(const std::string& whole, int64_t worker) {
  return whole + "@" + std::to_string(worker);
}

}  // namespace tofu

#endif  // TOFU_CORE_PROGRAM_NAMES_H_
