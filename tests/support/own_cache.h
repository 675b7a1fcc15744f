#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace adaact::testing {

/// While it lives, the user's cache is in this folder.
class OwnCache {
 public:
  explicit OwnCache(const std::filesystem::path& folder) {
    if (const auto* value = std::getenv(kVariable); value != nullptr) before_ = value;
    ::setenv(kVariable, folder.c_str(), 1);
  }
  ~OwnCache() { before_ ? ::setenv(kVariable, before_->c_str(), 1) : ::unsetenv(kVariable); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr char kVariable[] = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
};

}  // namespace adaact::testing
