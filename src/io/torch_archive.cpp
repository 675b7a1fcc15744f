#include "io/torch_archive.h"

#include <filesystem>

namespace adaact {
namespace {

using namespace std::string_view_literals;

bool begins_with(std::string_view bytes, std::string_view beginning) {
  return bytes.substr(0, beginning.size()) == beginning;
}

/// A text as Python reads it between single quotes, within double quotes of a shell.
std::string quoted_for_python(const std::string& text) {
  std::string inside;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') inside += '\\';
    if (letter == '"' || letter == '$' || letter == '`' || letter == '\\') inside += '\\';
    inside += letter;
  }
  return "'" + inside + "'";
}

/// The line that makes safetensors of the state_dict() which a Python expression gives.
std::string conversion(const std::string& state, const std::string& source) {
  const auto converted = std::filesystem::path(source).replace_extension(".safetensors").string();
  return "python3 -c \"import torch; from safetensors.torch import save_file; save_file({n: "
         "t.clone().contiguous() for n, t in " +
         state + ".items()}, " + quoted_for_python(converted) + ")\"";
}

std::string loaded(const std::string& source) {
  return "torch.load(" + quoted_for_python(source) + ", map_location='cpu', weights_only=True)";
}

std::string loaded_script(const std::string& source) {
  return "torch.jit.load(" + quoted_for_python(source) + ", map_location='cpu').state_dict()";
}

}  // namespace

std::string advice_for_torch_archive(std::string_view bytes, const std::string& source) {
  const bool zip = begins_with(bytes, "PK\x03\x04"sv);
  // torch.save of before 2020 begins with a number of 80 bits as a pickle of its own.
  const bool old_pickle = begins_with(bytes, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"sv);
  // The list of a zip archive's files stands at its end.
  const auto holds = [&](std::string_view file) {
    return bytes.rfind(file) != std::string_view::npos;
  };
  if (zip && holds("/constants.pkl"sv)) {
    return "a TorchScript archive; for weights this line makes it one: " +
           conversion(loaded_script(source), source) +
           "; what torch::save wrote of an optimizer torch::load reads";
  }
  if (old_pickle || (zip && holds("/data.pkl"sv))) {
    return "a pickle of PyTorch's; this line makes it one: " + conversion(loaded(source), source);
  }
  return zip ? "a zip archive" : "";
}

}  // namespace adaact
