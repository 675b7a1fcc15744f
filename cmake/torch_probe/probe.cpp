// Cheap to compile, yet it needs LibTorch's headers, its library and its C++ ABI: the name of
// at::show_config carries the ABI of the std::string that it returns.
#include <ATen/Version.h>
#include <torch/version.h>

#include <cstdio>

// TorchConfig.cmake passes the old ABI on to whoever links such a LibTorch, so the probe would
// link; nothing else on the system (GoogleTest, say) would then link with us.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "this LibTorch was built with the C++ ABI from before C++11"
#endif

int main() {
  if (at::show_config().empty()) return 1;
  std::puts(TORCH_VERSION);
  return 0;
}
