#include "data/user_cache.h"

#include <cstdlib>
#include <system_error>

#include "io/checksum.h"

namespace adaact {

namespace fs = std::filesystem;

fs::path user_cache() {
  const auto folder_in = [](const char* variable) -> fs::path {
    const auto* value = std::getenv(variable);
    const fs::path folder = value == nullptr ? "" : value;
    return folder.is_absolute() ? folder : fs::path();
  };
  if (const auto cache = folder_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "adaact";
  const auto home = folder_in("HOME");
  return home.empty() ? home : home / ".cache" / "adaact";
}

fs::path cached_file(const fs::path& folder, const char* ending) {
  const auto cache = user_cache();
  std::error_code error;
  const auto place = fs::canonical(folder, error);
  if (cache.empty() || error) return {};
  Crc64 key;
  key.update(place.string());
  return cache / (key.hex() + ending);
}

}  // namespace adaact
