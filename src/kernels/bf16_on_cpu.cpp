#include "kernels/bf16_on_cpu.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <torch/types.h>

namespace adaact {
namespace {

// oneDNN 3 reads the first, oneDNN 2 of LibTorch 1.13 the second.
constexpr const char* kVariables[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
constexpr char kLimit[] = "AVX512_CORE_BF16";

bool has_amx() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAmxBf16 = 1U << 22U;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxBf16) != 0;
#else
  return false;
#endif
}

bool somebody_has_limited_onednn() {
  for (const auto* variable : kVariables) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

bool dies(const std::function<void()>& probe) {
  const auto child = fork();
  if (child < 0) return false;  // then nothing is known, and nothing changes
  if (child == 0) {
    std::signal(SIGILL, SIG_DFL);  // whoever reports crashes has nothing to report here
    try {
      probe();
    } catch (...) {  // it lives: what it throws is the program's to find out
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGILL;
}

std::string& the_note() {
  static std::string note;
  return note;
}

void multiply_bf16() {
  const auto matrix = torch::ones({64, 64}, torch::kBFloat16);
  torch::mm(matrix, matrix);
}

}  // namespace

std::string limit_onednn_if_it_dies(const std::function<void()>& probe) {
  if (somebody_has_limited_onednn() || !dies(probe)) return {};
  for (const auto* variable : kVariables) setenv(variable, kLimit, /*overwrite=*/1);
  return "products of bfloat16 matrices die here with the processor's AMX, so oneDNN goes without "
         "it (ONEDNN_MAX_CPU_ISA=" +
         std::string(kLimit) + ")";
}

void make_bf16_products_safe() {
  if (has_amx()) the_note() = limit_onednn_if_it_dies(multiply_bf16);
}

const std::string& note_on_bf16_products() { return the_note(); }

}  // namespace adaact
