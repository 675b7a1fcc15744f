#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/plot.h"
#include "report/run_groups.h"

namespace adaact {

/// What is measured again and again while a run trains.
enum class Quantity : std::uint8_t {
  TrainLoss,
  TestLoss,
  TestAccuracy,  // in percent
  LearningRate,
  GradientNorm,
  StepTime,  // in milliseconds, without waiting for data
};

enum class Against : std::uint8_t { Epochs, Seconds };

/// More than a figure has pixels for.
inline constexpr std::size_t kMostPlaces = 400;

/// How a quantity went over the course of training, at no more than kMostPlaces places, each of which is
/// the mean of the steps around it. Of several seeds the mean, with its standard error as the error, as far
/// as all of them came; of their seconds the mean too. What was kept of a run without its steps has the
/// training loss of its epochs. Where steps are in epochs is not known before the first one is finished:
/// then there are no points.
std::vector<Point> course_of(const RunGroup& group, Quantity quantity, Against against);

}  // namespace adaact
