// libFuzzer's program: one target of many, by name, under limits.
//
//   fuzz_readers --target=png [libFuzzer's options] [corpus...]
//   fuzz_readers --list                 names of targets
//   fuzz_readers --write-seeds=FOLDER   FOLDER/<target>/<seed>, the valid files to start from

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "fuzz/fuzz_target.h"
#include "fuzz/input_limits.h"
#include "io/error_text.h"
#include "io/warning_listener.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace adaact::fuzz {
namespace {

const FuzzTarget* chosen = nullptr;

const FuzzTarget* target_named(const std::string& name) {
  for (const auto& target : fuzz_targets()) {
    if (target.name == name) return &target;
  }
  std::fprintf(stderr, "there is no target '%s'; --list names them\n", name.c_str());
  std::exit(2);
}

void list_targets() {
  for (const auto& target : fuzz_targets()) std::puts(target.name.c_str());
}

void write_seeds(const std::filesystem::path& folder) {
  for (const auto& target : fuzz_targets()) {
    std::filesystem::create_directories(folder / target.name);
    for (const auto& seed : target.seeds()) {
      std::ofstream(folder / target.name / seed.name, std::ios::binary) << seed.bytes;
    }
  }
}

/// The rest of an argument after this beginning; null where it begins otherwise.
const char* after(const char* argument, const char* beginning) {
  const auto length = std::strlen(beginning);
  return std::strncmp(argument, beginning, length) == 0 ? argument + length : nullptr;
}

void read_arguments(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--list") == 0) {
      list_targets();
      std::exit(0);
    }
    if (const auto* folder = after(arguments[i], "--write-seeds=")) {
      write_seeds(folder);
      std::exit(0);
    }
    if (const auto* name = after(arguments[i], "--target=")) chosen = target_named(name);
  }
  if (chosen != nullptr) return;
  std::fprintf(stderr, "expected --target=<name>, --list or --write-seeds=<folder>\n");
  std::exit(2);
}

/// One thread, and nothing that costs much more time than a reader does.
void prepare_libtorch() {
  at::set_num_threads(1);
  // Of every c10::Error, in words: thousands of them a second are expected here.
  c10::SetStackTraceFetcher([] { return std::string(); });
  static const WarningListener no_warnings([](const std::string& /*text*/) {});
}

void read_input(const std::string& bytes) {
  const InputLimits limits(bytes.size(), chosen->allowance);
  try {
    chosen->read(bytes);
  } catch (const c10::Error& error) {
    const auto text = error_text(error);
    if (chosen->errors_name_input && text.find(kInputName) == std::string::npos) {
      report_bug("an error does not name the file: " + text);
    }
  }
}

}  // namespace

std::string mutate_bytes(std::string bytes, std::size_t most) {
  const auto size = std::min(bytes.size(), most);
  bytes.resize(most);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, most));
  return bytes;
}

void report_bug(const std::string& message) {
  std::fprintf(stderr, "\nbug: %s\n", message.c_str());
  std::abort();
}

}  // namespace adaact::fuzz

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace adaact::fuzz;
  prepare_libtorch();
  read_arguments(*count, *arguments);
  // Whatever is made once and for all, by LibTorch or the target, is no input's.
  for (const auto& seed : chosen->seeds()) chosen->read(seed.bytes);
  InputLimits::install();
  std::atexit(InputLimits::print_largest);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  adaact::fuzz::read_input(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned int seed) {
  using namespace adaact::fuzz;
  if (chosen->mutate == nullptr) return LLVMFuzzerMutate(data, size, most);
  Random random(seed);
  const auto mutated =
      chosen->mutate(std::string(reinterpret_cast<const char*>(data), size), most, random);
  const auto length = std::min(mutated.size(), most);
  std::memcpy(data, mutated.data(), length);
  return length;
}
