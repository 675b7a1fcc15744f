// Measures what the library promises, as ratios in one run: the second moment against a plain pass
// over the input, and a training step against LibTorch's SGD. Prints a table and, with
// --json=FILE, writes every number. Repetitions of all benchmarks are interleaved at random, so that
// a slow spell of the machine hits all of them; the table shows medians and the spread.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "kernels/cpu_dispatch.h"
#include "peak_memory.h"
#include "training_step.h"

namespace adaact::bench {
namespace {

using nlohmann::json;

// Second moments.

struct Input {
  const char* name;
  std::vector<int64_t> shape;
  bool channels_last;
  int64_t kernel;  // 0: linear
};

const Input kInputs[] = {
    {"conv 128x3x32x32 k3", {128, 3, 32, 32}, false, 3},
    {"conv 128x16x32x32 k3", {128, 16, 32, 32}, false, 3},
    {"conv 128x32x16x16 k3", {128, 32, 16, 16}, false, 3},
    {"conv 128x64x8x8 k3", {128, 64, 8, 8}, false, 3},
    {"conv 128x64x8x8 k3 NHWC", {128, 64, 8, 8}, true, 3},
    {"conv 128x16x32x32 k3 NHWC", {128, 16, 32, 32}, true, 3},
    {"conv 32x64x56x56 k3", {32, 64, 56, 56}, false, 3},
    {"conv 32x3x224x224 k7", {32, 3, 224, 224}, false, 7},
    {"linear 2048x1024", {2048, 1024}, false, 0},
    {"linear 12608x384", {12608, 384}, false, 0},
    {"linear 65536x16", {65536, 16}, false, 0},
};

torch::Tensor make_input(const Input& input) {
  const auto x = torch::randn(input.shape);
  return input.channels_last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x;
}

Geometry geometry_of(const Input& input) {
  if (input.kernel == 0) return Geometry::linear();
  return Geometry::convolution({input.kernel, input.kernel}, {1}, {input.kernel / 2}, {1}, 1);
}

struct SumWords {
  static ADAACT_LOOP_BODY void run(const std::uint64_t* words, std::int64_t count,
                                   std::uint64_t* out) {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += words[i];
    *out = sum;
  }
};

/// The floor: reads every byte once, on all threads, and does next to nothing with it.
std::uint64_t read_once(const torch::Tensor& x) {
  const auto* words = static_cast<const std::uint64_t*>(x.data_ptr());
  const auto count = static_cast<std::int64_t>(x.nbytes() / sizeof(std::uint64_t));
  std::atomic<std::uint64_t> total{0};
  at::parallel_for(0, count, 8192, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t sum = 0;
    run_vectorized<SumWords>(words + begin, end - begin, &sum);
    total += sum;
  });
  return total;
}

void add_second_moment_benchmarks() {
  for (const auto& input : kInputs) {
    const auto add = [&](const char* what, auto&& measured) {
      return benchmark::RegisterBenchmark((std::string(what) + "/" + input.name).c_str(),
                                          [&input, measured](benchmark::State& state) {
                                            const torch::NoGradGuard no_grad;
                                            const auto x = make_input(input);
                                            const auto geometry = geometry_of(input);
                                            for (auto _ : state) measured(x, geometry);
                                          })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    };
    add("floor",
        [](const torch::Tensor& x, const Geometry&) { benchmark::DoNotOptimize(read_once(x)); });
    add("second_moment", [](const torch::Tensor& x, const Geometry& geometry) {
      benchmark::DoNotOptimize(second_moment_cpu(x, geometry));
    });
    add("reference", [](const torch::Tensor& x, const Geometry& geometry) {
      benchmark::DoNotOptimize(second_moment_reference(x, geometry));
    })->Iterations(1);  // up to seconds each
  }
}

// Training steps.

const char* const kModels[] = {"lenet5", "resnet20"};
const char* const kOptimizers[] = {"sgd", "adam", "adaact", "adan", "lamb", "sam", "foof", "kfac"};

/// FOOF and KFAC do different things in different steps: what each costs alone, and a whole period.
struct Periods {
  const char* name;
  int64_t covariance;
  int64_t inverse;
  int64_t steps;  // to measure
};
constexpr int64_t kNever = 1 << 30;
const Periods kPeriods[] = {
    // (T_cov, T_inv)
    {"neither", kNever, kNever, 2},
    {"covariance", 1, kNever, 2},
    {"both", 1, 1, 2},
    {"period", 5, 50, 50},
};
const char* const kFactored[] = {"foof", "kfac"};

bool is_factored(const std::string& optimizer) {
  return std::find(std::begin(kFactored), std::end(kFactored), optimizer) != std::end(kFactored);
}

TrainingStep::Source source_of(const std::string& optimizer) {
  return optimizer == "sgd" || optimizer == "adam" ? TrainingStep::Source::Baseline
                                                   : TrainingStep::Source::Registry;
}

benchmark::internal::Benchmark* add_step(const std::string& name, const std::string& model,
                                         const std::string& optimizer,
                                         const std::string& options = "{}") {
  return benchmark::RegisterBenchmark(name.c_str(),
                                      [=](benchmark::State& state) {
                                        TrainingStep step(model, optimizer, source_of(optimizer),
                                                          options);
                                        step.run();  // makes the state
                                        for (auto _ : state) step.run();
                                      })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

std::string step_name(const std::string& model, const std::string& optimizer) {
  return "step/" + model + "/" + optimizer + (is_factored(optimizer) ? "/period" : "");
}

void add_step_benchmarks() {
  for (const std::string model : kModels) {
    for (const std::string optimizer : kOptimizers) {
      if (!is_factored(optimizer)) {
        add_step(step_name(model, optimizer), model, optimizer)
            ->Iterations(model == "lenet5" ? 20 : 3);
        continue;
      }
      for (const auto& periods : kPeriods) {
        const json options{{"covariance_period", periods.covariance},
                           {"inverse_period", periods.inverse}};
        add_step("step/" + model + "/" + optimizer + "/" + periods.name, model, optimizer,
                 options.dump())
            ->Iterations(periods.steps)
            ->Repetitions(3);
      }
    }
  }
}

// Results.

struct Summary {
  double median = 0.0;
  double low = 0.0;   // 10th percentile
  double high = 0.0;  // 90th
};

Summary summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double quantile) {
    return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1) +
                                           0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

/// Collects the time of every repetition instead of printing it.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      times_[run.run_name.function_name].push_back(run.GetAdjustedRealTime());
    }
  }
  bool has(const std::string& name) const { return times_.count(name) != 0; }
  Summary of(const std::string& name) const { return summarize(times_.at(name)); }
  const std::map<std::string, std::vector<double>>& times() const { return times_; }

 private:
  std::map<std::string, std::vector<double>> times_;
};

void print_second_moments(const Collector& results, json& out) {
  std::printf(
      "\nSecond moment of a layer's input, µs (median [10 %%, 90 %%]); the floor reads the input "
      "once\n");
  std::printf("%-28s %8s %26s %14s %8s %10s %10s\n", "input", "MB", "second moment", "floor",
              "ratio", "reference", "ratio");
  for (const auto& input : kInputs) {
    const std::string name = input.name;
    if (!results.has("floor/" + name)) continue;
    const auto floor = results.of("floor/" + name);
    const auto moment = results.of("second_moment/" + name);
    const auto reference = results.of("reference/" + name);
    const double megabytes =
        static_cast<double>(c10::multiply_integers(input.shape)) * sizeof(float) / 1e6;
    std::printf("%-28s %8.1f %8.0f [%6.0f, %6.0f] %14.0f %8.2f %10.0f %10.2f\n", input.name,
                megabytes, moment.median, moment.low, moment.high, floor.median,
                moment.median / floor.median, reference.median, moment.median / reference.median);
    out["second_moment"].push_back({{"input", name},
                                    {"megabytes", megabytes},
                                    {"microseconds", moment.median},
                                    {"floor_microseconds", floor.median},
                                    {"ratio_to_floor", moment.median / floor.median},
                                    {"reference_microseconds", reference.median},
                                    {"ratio_to_reference", moment.median / reference.median}});
  }
}

/// What the first steps of a fresh model and optimizer need: activations, gradients, state, scratch.
double peak_megabytes_of_step(const std::string& model, const std::string& optimizer) {
  TrainingStep step(model, optimizer, source_of(optimizer));
  return static_cast<double>(peak_bytes([&] {
           for (int i = 0; i < 3; ++i) step.run();
         })) /
         1e6;
}

struct StateSize {
  double megabytes = 0.0;
  double ratio_to_weights = 0.0;
};

/// What an optimizer keeps from step to step, counters left out.
StateSize state_size(const std::string& model, const std::string& optimizer) {
  TrainingStep step(model, optimizer, TrainingStep::Source::Registry);
  step.run();
  double bytes = 0.0;
  const auto state = dynamic_cast<const HasNamedState&>(step.optimizer()).export_state();
  for (const auto& [parameter, entries] : state.entries) {
    for (const auto& [entry, tensor] : entries) {
      if (tensor.is_floating_point()) bytes += static_cast<double>(tensor.nbytes());
    }
  }
  double weights = 0.0;
  for (const auto& parameter : step.module().parameters()) {
    weights += static_cast<double>(parameter.nbytes());
  }
  return {bytes / 1e6, bytes / weights};
}

void print_steps(const Collector& results, json& out) {
  std::printf(
      "\nTraining step, batch 128, 3x32x32, ms (median [10 %%, 90 %%]); memory a step adds at its "
      "peak; optimizer state\n");
  std::printf("%-10s %-8s %26s %8s %8s %8s %8s %9s %10s\n", "model", "", "ms", "to SGD", "to Adam",
              "peak MB", "to SGD", "state MB", "to weights");
  for (const std::string model : kModels) {
    if (!results.has(step_name(model, "sgd")) || !results.has(step_name(model, "adam"))) continue;
    const auto sgd = results.of(step_name(model, "sgd")).median;
    const auto adam = results.of(step_name(model, "adam")).median;
    const auto sgd_peak = peak_megabytes_of_step(model, "sgd");
    for (const std::string optimizer : kOptimizers) {
      if (!results.has(step_name(model, optimizer))) continue;
      const auto time = results.of(step_name(model, optimizer));
      const auto peak = peak_megabytes_of_step(model, optimizer);
      const auto state = state_size(model, optimizer);
      std::printf("%-10s %-8s %8.2f [%6.2f, %6.2f] %8.3f %8.3f %8.1f %8.3f %9.3f %10.2f\n",
                  model.c_str(), optimizer.c_str(), time.median, time.low, time.high,
                  time.median / sgd, time.median / adam, peak, peak / sgd_peak, state.megabytes,
                  state.ratio_to_weights);
      out["step"].push_back({{"model", model},
                             {"optimizer", optimizer},
                             {"milliseconds", time.median},
                             {"ratio_to_sgd", time.median / sgd},
                             {"ratio_to_adam", time.median / adam},
                             {"peak_megabytes", peak},
                             {"peak_ratio_to_sgd", peak / sgd_peak},
                             {"state_megabytes", state.megabytes},
                             {"state_ratio_to_weights", state.ratio_to_weights}});
    }
  }
}

/// What a step costs beyond SGD's: as measured over a period, as the periods promise from the parts,
/// and where covariance and inverse come with every step.
void print_periods(const Collector& results, json& out) {
  std::printf(
      "\nFOOF and KFAC beyond SGD, ms a step: a period (covariance every 5 steps, inverse every "
      "50),"
      " what the parts promise for it, and both in every step\n");
  std::printf("%-10s %-8s %8s %8s %12s %12s %12s %10s\n", "model", "", "period", "promised",
              "each step", "covariance", "inverse", "faster by");
  for (const std::string model : kModels) {
    for (const std::string optimizer : kFactored) {
      const auto name = "step/" + model + "/" + optimizer + "/";
      if (!results.has(name + "period") || !results.has(step_name(model, "sgd"))) continue;
      const auto sgd = results.of(step_name(model, "sgd")).median;
      const auto beyond_sgd = [&](const char* which) {
        return results.of(name + which).median - sgd;
      };
      const auto neither = beyond_sgd("neither");
      const auto covariance = beyond_sgd("covariance") - neither;
      const auto both = beyond_sgd("both");
      const auto inverse = both - beyond_sgd("covariance");
      const auto period = beyond_sgd("period");
      const auto promised = neither + covariance / 5.0 + inverse / 50.0;
      std::printf("%-10s %-8s %8.2f %8.2f %12.2f %12.2f %12.2f %10.1f\n", model.c_str(),
                  optimizer.c_str(), period, promised, both, covariance, inverse, both / period);
      out["periods"].push_back({{"model", model},
                                {"optimizer", optimizer},
                                {"period_milliseconds", period},
                                {"promised_milliseconds", promised},
                                {"each_step_milliseconds", both},
                                {"covariance_milliseconds", covariance},
                                {"inverse_milliseconds", inverse}});
    }
  }
}

int run(int argc, char** argv) {
  std::string json_path;
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--json=", 0) == 0) {
      json_path = argument.substr(7);
    } else {
      arguments.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

  add_second_moment_benchmarks();
  add_step_benchmarks();
  Collector results;
  benchmark::RunSpecifiedBenchmarks(&results);

  json out{{"libtorch", TORCH_VERSION}, {"threads", at::get_num_threads()}};
  std::printf("LibTorch %s, %d threads\n", TORCH_VERSION, at::get_num_threads());
  print_second_moments(results, out);
  print_steps(results, out);
  print_periods(results, out);
  out["repetitions"] = results.times();
  if (!json_path.empty()) std::ofstream(json_path) << out.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace adaact::bench

int main(int argc, char** argv) { return adaact::bench::run(argc, argv); }
