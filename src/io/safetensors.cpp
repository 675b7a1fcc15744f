#include <adaact/io/safetensors.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/checksum.h"

// Layout: length of the header (8 bytes, little endian), header (JSON, padded with spaces to a
// multiple of 8), data. The header maps each name to dtype, shape and [begin, end) in the data;
// `__metadata__` maps strings to strings.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little endian");

namespace adaact {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr char kMetadata[] = "__metadata__";
constexpr char kChecksum[] = "adaact.checksum";
/// Stands in the checksum's place while the checksum is computed.
const std::string kNoChecksum(16, '0');

struct DtypeName {
  torch::ScalarType dtype;
  const char* name;
};

constexpr DtypeName kDtypes[] = {
    {torch::kFloat64, "F64"},   {torch::kFloat32, "F32"}, {torch::kFloat16, "F16"},
    {torch::kBFloat16, "BF16"}, {torch::kInt64, "I64"},   {torch::kInt32, "I32"},
    {torch::kInt16, "I16"},     {torch::kInt8, "I8"},     {torch::kUInt8, "U8"},
    {torch::kBool, "BOOL"},
};

const char* name_of(torch::ScalarType dtype, const std::string& tensor) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  TORCH_CHECK(false, "adaact: tensor '", tensor, "' has dtype ", dtype,
              ", which safetensors cannot hold");
}

torch::ScalarType dtype_of(const std::string& name, const std::string& tensor,
                           const std::string& source) {
  for (const auto& known : kDtypes) {
    if (name == known.name) return known.dtype;
  }
  TORCH_CHECK(false, "adaact: ", source, ": tensor '", tensor, "' has unknown dtype '", name, "'");
}

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

torch::Tensor read_tensor(const std::string& name, const json& entry, std::string_view data,
                          const std::string& source) {
  const auto dtype = dtype_of(entry.at("dtype").get<std::string>(), name, source);
  const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
  std::uint64_t bytes = c10::elementSize(dtype);
  for (const auto size : shape) {
    TORCH_CHECK(size >= 0 && (size == 0 || bytes <= data.size() / static_cast<std::uint64_t>(size)),
                "adaact: ", source, ": tensor '", name, "' of shape ", shape,
                " is larger than the file");
    bytes *= static_cast<std::uint64_t>(size);
  }
  TORCH_CHECK(begin <= end && end <= data.size() && end - begin == bytes, "adaact: ", source,
              ": tensor '", name, "' lies at bytes [", begin, ", ", end, ") of ", data.size(),
              ", expected ", bytes, " bytes");
  auto tensor = torch::empty(shape, dtype);
  if (bytes > 0) std::memcpy(tensor.data_ptr(), data.data() + begin, bytes);
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
    header[name] = {{"dtype", name_of(tensor.scalar_type(), name)},
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
  TORCH_CHECK(bytes.rfind("PK\x03\x04", 0) != 0, "adaact: ", source,
              " is no safetensors file but a zip archive, as torch::save writes; use torch::load");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  TORCH_CHECK(length <= bytes.size() - kLengthBytes, "adaact: ", source,
              " is truncated or no safetensors file: its header should have ", length, " bytes, ",
              bytes.size() - kLengthBytes, " are there");
  const std::string_view view(bytes);
  const auto data = view.substr(kLengthBytes + length);

  TensorFile file;
  try {
    const auto header = json::parse(view.substr(kLengthBytes, length));
    TORCH_CHECK(header.is_object(), "adaact: ", source, ": the header is no JSON object");
    if (const auto found = header.find(kMetadata); found != header.end()) {
      file.metadata = found->get<std::map<std::string, std::string>>();
    }
    verify_checksum(bytes, file.metadata, checksum, source);
    file.metadata.erase(kChecksum);
    std::map<std::uint64_t, std::uint64_t> ranges;  // begin → end of what is not empty
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) continue;
      file.tensors[name] = read_tensor(name, entry, data, source);
      if (file.tensors[name].numel() == 0) continue;
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const bool first = ranges.emplace(begin, begin + file.tensors[name].nbytes()).second;
      TORCH_CHECK(first, "adaact: ", source, ": tensor '", name, "' overlaps another at ", begin);
    }
    std::uint64_t used = 0;
    for (const auto& [begin, end] : ranges) {
      TORCH_CHECK(begin == used, "adaact: ", source, ": the data has a hole or an overlap at byte ",
                  used);
      used = end;
    }
    TORCH_CHECK(used == data.size(), "adaact: ", source,
                " is truncated or damaged: its tensors take ", used, " bytes, ", data.size(),
                " are there");
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
  std::ifstream in(path, std::ios::binary);
  TORCH_CHECK(in.is_open(), "adaact: cannot open ", path, ": ", std::strerror(errno));
  return read(in, checksum, path.string());
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
