/*!
 * \file large_pages.h
 */
#pragma once

#include <cstddef>
#include <memory_resource>

namespace tofu {

/*! \brief Return a resource that asks the system for pages of 2 MiB in blocks of at least 4 MiB.
 *
 * The system then clears and maps new memory in a fraction of the time. Other blocks come from
 * operator new.
 */
std::pmr::memory_resource* LargePages();

}  // namespace tofu
