#include "experiments/paper/catalog.h"
#include "experiments/paper/rate_search.h"

namespace adaact {
namespace {

RateSearch equal_search() {
  RateSearch search;
  search.name = "equal-effort";
  search.title = "Nine optimizers with equal effort";
  search.shows =
      "ResNet-20 on CIFAR-10 and CIFAR-100: accuracy at the best of five rates, and time";
  search.paragraphs = {
      "The paper takes each optimizer's settings from elsewhere. Here all nine have five learning "
      "rates, a factor of about three apart around the usual one, and 60 epochs; all else is as in "
      "the paper's CIFAR table, and for LAMB and SAM, which it does not have, by default."};
  search.tasks = {{"cifar10", "resnet20"}, {"cifar100", "resnet20"}};
  search.optimizers = {
      {"adaact", {0.01, 0.03, 0.1, 0.3, 1.0}},  {"sgd", {0.01, 0.03, 0.1, 0.3, 1.0}},
      {"adam", {1e-4, 3e-4, 1e-3, 3e-3, 1e-2}}, {"adamw", {1e-4, 3e-4, 1e-3, 3e-3, 1e-2}},
      {"adan", {1e-3, 3e-3, 1e-2, 3e-2, 0.1}},  {"lamb", {5e-4, 1.5e-3, 5e-3, 1.5e-2, 5e-2}},
      {"sam", {0.01, 0.03, 0.1, 0.3, 1.0}},     {"kfac", {5e-3, 1.5e-2, 5e-2, 0.15, 0.5}},
      {"foof", {5e-3, 1.5e-2, 5e-2, 0.15, 0.5}}};
  search.epochs = 60;
  return search;
}

}  // namespace

const Experiment& equal_effort() {
  static const SearchedRatesExperiment experiment(equal_search());
  return experiment;
}

}  // namespace adaact
