#include "models/torchscript.h"

#include <memory>

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/utils.h>

namespace adaact {
namespace {

using CompilationUnit = std::shared_ptr<torch::jit::CompilationUnit>;

/// The state of a module and of those in it, under the same names, without a method.
torch::jit::Module state_as_script(const torch::nn::Module& module, const char* class_name,
                                   const CompilationUnit& unit) {
  torch::jit::Module script(c10::QualifiedName(class_name), unit, /*shouldMangle=*/true);
  // What Python's train() and eval() set.
  script.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    script.register_parameter(parameter.key(), parameter.value(), /*is_buffer=*/false);
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    script.register_buffer(buffer.key(), buffer.value());
  }
  for (const auto& child : module.named_children()) {
    script.register_module(child.key(),
                           state_as_script(*child.value(), "__torch__.adaact.Layer", unit));
  }
  return script;
}

}  // namespace

torch::jit::Module traced_module(Model& model, const torch::Tensor& example,
                                 const std::function<torch::Tensor(const torch::Tensor&)>& prepare,
                                 const ScriptAttributes& attributes) {
  TORCH_CHECK(!model.is_training(), "adaact: a model is traced in evaluation mode; call eval()");
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  auto script = state_as_script(model, "__torch__.adaact.Model", unit);
  for (const auto& [name, value] : attributes) {
    script.register_attribute(name, value.type(), value);
  }

  const torch::NoGradGuard no_grad;
  const auto forward = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    return {model.forward(prepare(inputs.at(0).toTensor()))};
  };
  const auto no_names = [](const torch::Tensor&) { return std::string(); };
  const auto state =
      torch::jit::tracer::trace(torch::jit::Stack{example}, forward, no_names, /*strict=*/true,
                                /*force_outplace=*/false, &script, {"images"})
          .first;
  const c10::QualifiedName method(*script.type()->name(), "forward");
  script.type()->addMethod(unit->create_function(method, state->graph));
  return script;
}

}  // namespace adaact
