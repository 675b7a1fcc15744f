#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <adaact/ranks/mpi.h>
#include <adaact/ranks/nccl.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/jpeg_batch_decoder.h"
#include "io/joined.h"
#include "kernels/gpu.h"
#include "output.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

ordered_json list_of_gpus() {
  auto list = ordered_json::array();
  for (const auto& gpu : gpus()) {
    list.push_back({{"device", "cuda:" + std::to_string(list.size())},
                    {"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  return list;
}

const char* cuda_support() {
  return cuda_version().empty() ? "built without CUDA" : "built with CUDA";
}

const char* mpi_support() { return has_mpi() ? "built with MPI" : "built without MPI"; }
const char* nccl_support() { return has_nccl() ? "built with NCCL" : "built without NCCL"; }
const char* nvjpeg_support() { return has_nvjpeg() ? "built with nvJPEG" : "built without nvJPEG"; }

ordered_json collect() {
  auto found = ordered_json::object();
  for (const auto& [name, folder] : datasets_found()) found[name] = folder.string();
  return {{"adaact", ADAACT_VERSION},
          {"libtorch", TORCH_VERSION},
          {"compiler", __VERSION__},
          {"threads", std::thread::hardware_concurrency()},
          {"cuda", cuda_support()},
          {"gpus", list_of_gpus()},
          {"mpi", mpi_support()},
          {"nccl", nccl_support()},
          {"nvjpeg", nvjpeg_support()},
          {"models", model_names()},
          {"optimizers", optimizer_names()},
          {"datasets", dataset_names()},
          {"datasets_found", found}};
}

void print(const ordered_json& info) {
  const auto text = [&](const char* key) { return info[key].get<std::string>(); };
  std::printf("adaact      %s\n", text("adaact").c_str());
  std::printf("LibTorch    %s, compiled here with %s\n", text("libtorch").c_str(),
              text("compiler").c_str());
  std::printf("threads     %u, one for each core, unless --threads says otherwise\n",
              info["threads"].get<unsigned>());
  std::printf("devices     cpu\n");
  for (const auto& gpu : info["gpus"]) {
    std::printf("            %s: %s, %.0f GB\n", gpu["device"].get<std::string>().c_str(),
                gpu["name"].get<std::string>().c_str(), gpu["memory_bytes"].get<double>() / 1e9);
  }
  if (info["gpus"].empty()) std::printf("            no GPU, %s\n", text("cuda").c_str());
  std::printf("ranks       %s\n", has_mpi() ? "built with MPI: mpirun -n 4 adaact train ..."
                                            : "built without MPI, so there is one process");
  if (has_nccl()) std::printf("            built with NCCL, for ranks that have a GPU each\n");
  if (has_nvjpeg()) std::printf("images      built with nvJPEG, which decodes JPEGs on a GPU\n");
  std::printf("models      %s\n", joined(info["models"].get<std::vector<std::string>>()).c_str());
  std::printf("optimizers  %s\n",
              joined(info["optimizers"].get<std::vector<std::string>>()).c_str());
  std::printf("data sets   %s\n", joined(info["datasets"].get<std::vector<std::string>>()).c_str());
  if (info["datasets_found"].empty()) {
    std::printf("found       none; apt-get install dataset-fashion-mnist brings one\n");
  }
  for (const auto& [name, folder] : info["datasets_found"].items()) {
    std::printf("found       %s in %s\n", name.c_str(), folder.get<std::string>().c_str());
  }
}

}  // namespace

void add_info_command(CLI::App& app, int& exit_code) {
  auto output = std::make_shared<OutputOptions>();
  auto* command = app.add_subcommand("info", "Show versions, devices and data sets");
  command->add_flag("--json", output->json, "Print it as JSON");
  command->callback([output, &exit_code] {
    const auto info = collect();
    output->json ? print_json(info) : print(info);
    exit_code = 0;
  });
}

}  // namespace adaact::app
