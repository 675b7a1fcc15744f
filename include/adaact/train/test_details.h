#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adaact {

/// What an evaluation says beyond its sums: which classes are taken for which, and the images of which the
/// model was most certain and wrong.
struct TestDetails {
  /// How many images of a class were taken for one of the classes; only what happened is listed.
  struct Confusion {
    std::int64_t label = 0;
    std::int64_t predicted = 0;
    std::int64_t images = 0;
  };
  struct WrongImage {
    std::int64_t index = 0;  // in the test data
    std::int64_t label = 0;
    std::int64_t predicted = 0;
    double probability = 0.0;  // of the predicted class
    std::string png;           // a small picture as base64
  };
  struct OfClass {
    std::int64_t images = 0;
    std::int64_t right = 0;
    /// NaN where there are no images.
    double accuracy() const;
  };

  std::vector<std::string> classes;    // their names
  std::vector<Confusion> confusions;   // right answers too; by label, then by prediction
  std::vector<WrongImage> most_wrong;  // the most certain first

  std::vector<OfClass> by_class() const;
  /// Mistakes alone, the most frequent first.
  std::vector<Confusion> mistakes() const;
  /// How many images of each class (row) were taken for each (column), row by row.
  std::vector<std::int64_t> matrix() const;

  std::string to_json() const;
  /// What is no such text is an error that names `source` and what is wrong with it.
  static TestDetails from_json(const std::string& text, const std::string& source);
};

/// How many images TestDetails keeps, and how large their pictures are at most.
inline constexpr std::size_t kMostWrongImages = 12;
inline constexpr std::int64_t kThumbnailSize = 48;

/// The file of a run; nothing where there is none, as of a run that is not finished.
std::optional<TestDetails> read_test_details(const std::filesystem::path& file);

}  // namespace adaact
