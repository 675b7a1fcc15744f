#pragma once

#include <functional>
#include <string>

namespace adaact {

/// On processors with AMX a product of bfloat16 matrices may die inside oneDNN with SIGILL: seen in virtual
/// machines, although the kernel had granted the tiles. Where the processor has AMX and nobody has limited
/// oneDNN, this tries one in a child process and, if that dies, keeps oneDNN from using AMX. To be called
/// before LibTorch has started threads or multiplied anything.
void make_bf16_products_safe();

/// What to say where bfloat16 is used and oneDNN was limited; else empty.
const std::string& note_on_bf16_products();

/// The same with another probe, whether or not the processor has AMX. Returns the note.
std::string limit_onednn_if_it_dies(const std::function<void()>& probe);

}  // namespace adaact
