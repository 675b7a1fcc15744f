#include "train/run/build_id.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

namespace adaact {

#ifdef __linux__

namespace {

/// What is looked for among the programs and libraries of the process.
struct BuildSearch {
  std::uintptr_t code;  // an address within the wanted one
  std::string found;
};

bool contains_code(const dl_phdr_info& object, std::uintptr_t code) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const auto begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && code >= begin && code - begin < part.p_memsz) return true;
  }
  return false;
}

std::string in_hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

/// The identity among these notes, each of which has a name and a text, padded to four bytes; empty where it is not.
std::string build_id_in(const unsigned char* notes, std::size_t bytes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const auto size = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (size > bytes) break;
    const auto* const name = notes + sizeof note;
    const bool is_gnu = note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID) {
      return in_hexadecimal(name + padded(note.n_namesz), note.n_descsz);
    }
    notes += size;
    bytes -= size;
  }
  return {};
}

int look_for_build_id(dl_phdr_info* object, std::size_t /*size*/, void* search_data) {
  auto& search = *static_cast<BuildSearch*>(search_data);
  if (!contains_code(*object, search.code)) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.found.empty(); ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto address = object->dlpi_addr + part.p_vaddr;
    // NOLINTNEXTLINE(*-int-to-ptr): the loader tells by a number where the notes lie
    const auto* const notes = reinterpret_cast<const unsigned char*>(address);
    search.found = build_id_in(notes, part.p_memsz);
  }
  return 1;  // no other object has this code
}

}  // namespace

std::string build_id() {
  BuildSearch search{reinterpret_cast<std::uintptr_t>(&build_id), {}};
  dl_iterate_phdr(look_for_build_id, &search);
  return search.found.empty() ? "unknown" : search.found;
}

#else

std::string build_id() { return "unknown"; }

#endif

}  // namespace adaact
