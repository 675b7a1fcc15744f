#include <adaact/io/safetensors.h>

#include <cstring>
#include <istream>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/file_descriptor.h"
#include "io/json_text.h"
#include "io/tensor_header.h"
#include "io/torch_archive.h"

// Layout: length of the header (8 bytes, little endian), header (JSON, padded with spaces to a
// multiple of 8), data. The header maps each name to dtype, shape and [begin, end) in the data;
// `__metadata__` maps strings to strings.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little endian");

namespace adaact {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
/// Other readers of the format take headers up to this length, too.
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr char kChecksum[] = "adaact.checksum";
/// Stands in the checksum's place while the checksum is computed.
const std::string kNoChecksum(16, '0');

std::string checksum_of(const std::string& bytes, std::size_t checksum_at) {
  const std::string_view view(bytes);
  Crc64 crc;
  crc.update(view.substr(0, checksum_at));
  crc.update(kNoChecksum);
  crc.update(view.substr(checksum_at + kNoChecksum.size()));
  return crc.hex();
}

/// Where the checksum's digits stand. The header is JSON without spaces, as this project writes it.
std::size_t find_checksum(const std::string& bytes, const std::string& digits) {
  const std::string field = std::string("\"") + kChecksum + "\":\"";
  const auto at = bytes.find(field + digits + "\"");
  return at == std::string::npos ? at : at + field.size();
}

void verify_checksum(const std::string& bytes, const std::map<std::string, std::string>& metadata,
                     TensorFile::Checksum checksum, const std::string& source) {
  const auto stored = metadata.find(kChecksum);
  if (stored == metadata.end()) {
    TORCH_CHECK(checksum == TensorFile::Checksum::IfPresent, "adaact: ", source,
                " carries no checksum; it was not written by this library or is damaged");
    return;
  }
  TORCH_CHECK(stored->second.size() == kNoChecksum.size(), "adaact: ", source,
              ": the checksum has ", stored->second.size(), " digits, expected 16");
  const auto at = find_checksum(bytes, stored->second);
  TORCH_CHECK(at != std::string::npos, "adaact: ", source, ": the checksum field is damaged");
  const auto actual = checksum_of(bytes, at);
  TORCH_CHECK(actual == stored->second, "adaact: ", source, " is damaged: its checksum is ", actual,
              ", the file says ", stored->second);
}

torch::Tensor copied(const DescribedTensor& described, std::string_view data) {
  auto tensor = torch::empty(described.shape, described.dtype);
  if (described.bytes > 0) {
    std::memcpy(tensor.data_ptr(), data.data() + described.begin, described.bytes);
  }
  return tensor;
}

}  // namespace

std::string TensorFile::to_bytes() const {
  json header = json::object();
  auto& strings = header[kMetadata] = metadata;
  strings[kChecksum] = kNoChecksum;
  std::vector<torch::Tensor> data;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(name != kMetadata, "adaact: a tensor cannot be named ", kMetadata);
    TORCH_CHECK(tensor.defined(), "adaact: tensor '", name, "' is undefined");
    data.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const auto bytes = static_cast<std::uint64_t>(data.back().nbytes());
    header[name] = {{"dtype", dtype_name(tensor.scalar_type(), name)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  auto text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');

  std::string bytes(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, kLengthBytes);
  bytes.reserve(kLengthBytes + text.size() + offset);
  bytes += text;
  for (const auto& tensor : data) {
    if (tensor.numel() > 0)
      bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  const auto checksum_at = find_checksum(bytes, kNoChecksum);
  TORCH_INTERNAL_ASSERT(checksum_at != std::string::npos);
  bytes.replace(checksum_at, kNoChecksum.size(), checksum_of(bytes, checksum_at));
  return bytes;
}

TensorFile TensorFile::from_bytes(const std::string& bytes, Checksum checksum,
                                  const std::string& source) {
  TORCH_CHECK(bytes.size() >= kLengthBytes, "adaact: ", source, " is no safetensors file: it has ",
              bytes.size(), " bytes");
  const auto advice = advice_for_torch_archive(bytes, source);
  TORCH_CHECK(advice.empty(), "adaact: ", source, " is no safetensors file but ", advice);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  TORCH_CHECK(length <= bytes.size() - kLengthBytes, "adaact: ", source,
              " is truncated or no safetensors file: its header should have ", length, " bytes, ",
              bytes.size() - kLengthBytes, " are there");
  TORCH_CHECK(length <= kLongestHeader, "adaact: ", source, ": the header has ", length,
              " bytes, expected at most ", kLongestHeader);
  const std::string_view view(bytes);
  const auto data = view.substr(kLengthBytes + length);

  TensorFile file;
  try {
    const auto header =
        parse_json<json>(view.substr(kLengthBytes, length), source + ": the header");
    TORCH_CHECK(header.is_object(), "adaact: ", source, ": the header is no JSON object");
    if (const auto found = header.find(kMetadata); found != header.end()) {
      file.metadata = found->get<std::map<std::string, std::string>>();
    }
    verify_checksum(bytes, file.metadata, checksum, source);
    file.metadata.erase(kChecksum);
    for (const auto& described : described_tensors(header, data.size(), source)) {
      file.tensors[described.name] = copied(described, data);
    }
  } catch (const json::exception& error) {
    TORCH_CHECK(false, "adaact: ", source, ": the header is damaged: ", error.what());
  }
  return file;
}

void TensorFile::write(const std::filesystem::path& path) const {
  write_file_atomically(path, to_bytes());
}

void TensorFile::write(std::ostream& out) const {
  const auto bytes = to_bytes();
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(out.good(), "adaact: writing ", bytes.size(), " bytes to a stream failed");
}

TensorFile TensorFile::read(const std::filesystem::path& path, Checksum checksum) {
  return from_bytes(read_file(path), checksum, path.string());
}

TensorFile TensorFile::read(std::istream& in, Checksum checksum, const std::string& source) {
  std::ostringstream bytes;
  bytes << in.rdbuf();
  TORCH_CHECK(!in.bad(), "adaact: reading ", source, " failed");
  return from_bytes(bytes.str(), checksum, source);
}

const torch::Tensor& TensorFile::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    std::string known;
    for (const auto& [other, tensor] : tensors) known += (known.empty() ? "" : ", ") + other;
    TORCH_CHECK(false, "adaact: no tensor is named '", name, "'; there are: ", known);
  }
  return found->second;
}

}  // namespace adaact
