// Seconds that one core takes to decode photographs, of each a part, scale it to 224×224 and mirror it where that is
// asked for. bench/decode_against_pillow.py writes the list and compares.
//
//   decode_photographs LIST
//
// Each line of the list: top left height width bicubic mirrored path. The last number printed is a checksum of
// all images.

#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <zlib.h>

#include "data/decode_image.h"
#include "data/resample.h"

namespace {

constexpr std::int64_t kSide = 224;

struct Photograph {
  std::string path;
  adaact::ImagePart part;
};

std::vector<Photograph> read_list(const char* path) {
  std::vector<Photograph> photographs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Photograph photograph;
    auto& [box, filter, mirrored] = photograph.part;
    bool bicubic = false;
    words >> box.top >> box.left >> box.height >> box.width >> bicubic >> mirrored >> std::ws;
    std::getline(words, photograph.path);
    filter = bicubic ? adaact::ResampleFilter::Bicubic : adaact::ResampleFilter::Bilinear;
    photographs.push_back(photograph);
  }
  return photographs;
}

void prepare(const Photograph& photograph, std::uint8_t* planes) {
  const auto& part = photograph.part;
  const auto choose = [&](std::int64_t, std::int64_t) { return part.box; };
  const auto image = adaact::decode_part(photograph.path, choose, kSide);
  adaact::resize_image({image.pixels.data(), image.height, image.width, 3}, part.filter,
                       part.mirrored, kSide, kSide, planes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: decode_photographs LIST\n";
    return 2;
  }
  try {
    const auto photographs = read_list(argv[1]);
    std::vector<std::uint8_t> planes(3 * kSide * kSide);
    std::chrono::duration<double> taken{0};
    auto checksum = crc32(0, nullptr, 0);
    for (const auto& photograph : photographs) {
      const auto begin = std::chrono::steady_clock::now();
      prepare(photograph, planes.data());
      taken += std::chrono::steady_clock::now() - begin;
      checksum = crc32(checksum, planes.data(), static_cast<uInt>(planes.size()));
    }
    std::cout << taken.count() << ' ' << checksum << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
