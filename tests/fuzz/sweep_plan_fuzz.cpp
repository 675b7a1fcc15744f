// sweep.json of a sweep, and the trials that it makes.

#include <c10/util/Exception.h>

#include "fuzz/fuzz_targets.h"
#include "sweep/sweep_plan.h"

namespace adaact::fuzz {
namespace {

void read_sweep_plan(const std::string& bytes) {
  auto plan = SweepPlan::from_json(bytes, kInputName);
  const auto written = plan.to_json();
  require(SweepPlan::from_json(written, "written").to_json() == written,
          "a plan that was read and written differs from itself");
  try {
    plan.resolve();
    require(trials_of(plan).size() == plan.size(), "a plan makes another number of trials");
  } catch (const c10::Error&) {
    // An error in words is what is wanted.
  }
}

std::vector<Seed> sweep_plan_seeds() {
  SweepPlan grid;
  grid.optimizers = {"adaact", "sgd"};
  grid.learning_rates = {0.01, 0.1};
  grid.learning_rates_of["sgd"] = {1.0};
  SweepPlan draws;
  draws.optimizers = {"sam"};
  draws.learning_rates = {0.001, 1.0};
  draws.weight_decays = {1e-5, 1e-3};
  draws.draws = 3;
  return {{"grid", grid.to_json()}, {"draws", draws.to_json()}};
}

}  // namespace

FuzzTarget sweep_plan_target() { return {"sweep_plan", read_sweep_plan, sweep_plan_seeds}; }

}  // namespace adaact::fuzz
