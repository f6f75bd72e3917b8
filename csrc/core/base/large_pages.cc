/*!
 * \file large_pages.cc
 */
#include "core/base/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tofu {

namespace {

class LargePageResource : public std::pmr::memory_resource {
 private:
  static constexpr size_t kPage = size_t{2} << 20;

  static bool IsLarge(size_t bytes, size_t alignment) {
    return bytes >= 2 * kPage && alignment <= kPage;
  }

  void* do_allocate(size_t bytes, size_t alignment) override {
    if (!IsLarge(bytes, alignment))
      return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* block = std::aligned_alloc(kPage, rounded);
    if (block == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(block, rounded, MADV_HUGEPAGE);  // only advice: it may fail
#endif
    return block;
  }

  void do_deallocate(void* block, size_t bytes, size_t alignment) override {
    if (IsLarge(bytes, alignment)) return std::free(block);
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace

std::pmr::memory_resource* LargePages() {
  static LargePageResource resource;
  return &resource;
}

}  // namespace tofu
