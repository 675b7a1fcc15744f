#include "peak_memory.h"

#include <atomic>
#include <cerrno>

#include <malloc.h>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> in_use{0};
std::atomic<std::int64_t> highest{0};

void* counted(void* block) {
  if (block != nullptr && counting.load(std::memory_order_relaxed)) {
    const auto now = in_use += static_cast<std::int64_t>(malloc_usable_size(block));
    auto seen = highest.load();
    while (now > seen && !highest.compare_exchange_weak(seen, now)) {
    }
  }
  return block;
}

void uncounted(void* block) {
  if (block != nullptr && counting.load(std::memory_order_relaxed)) {
    in_use -= static_cast<std::int64_t>(malloc_usable_size(block));
  }
}

}  // namespace

// glibc's own functions, which it exports so that a program may put its own in front of them.
extern "C" {
void* __libc_malloc(std::size_t size);                           // NOLINT
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT
void* __libc_realloc(void* block, std::size_t size);             // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT
void __libc_free(void* block);                                   // NOLINT

void* malloc(std::size_t size) { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return counted(__libc_calloc(count, size)); }
void* realloc(void* block, std::size_t size) {
  uncounted(block);
  return counted(__libc_realloc(block, size));
}
void* memalign(std::size_t alignment, std::size_t size) {
  return counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  uncounted(block);
  __libc_free(block);
}
}

namespace adaact::bench {

std::int64_t peak_bytes(const std::function<void()>& work) {
  in_use = 0;
  highest = 0;
  counting = true;
  work();
  counting = false;
  return highest;
}

}  // namespace adaact::bench
