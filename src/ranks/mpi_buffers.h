#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace adaact {

/// Memory that is taken again and again. To get it from the system each time would take longer than to fill it, because
/// the system hands out page after page.
class MpiBuffers {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace adaact
