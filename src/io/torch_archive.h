#pragma once

#include <string>
#include <string_view>

namespace adaact {

/// What to do with bytes that are no safetensors file but one of PyTorch's own, beginning with what it is: "a
/// pickle of PyTorch's; …". Empty for any other bytes.
///
/// They are not read here: a pickle is a program, and LibTorch's reader does not check what it is given. Python
/// converts them in one line, which this names.
std::string advice_for_torch_archive(std::string_view bytes, const std::string& source);

}  // namespace adaact
