// What a finished run says of its test, as a report reads and shows it.

#include <adaact/train/test_details.h>

#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"
#include "report/details_section.h"
#include "support/made_up_details.h"
#include "train/run/run_file_names.h"

namespace adaact::fuzz {
namespace {

void read_details(const std::string& bytes) {
  static const InputFolder folder;
  const auto details = read_test_details(folder.write(kTestDetailsFile, bytes));
  require(details.has_value(), "a file that is there was not read");
  details_section(*details, kMostWrongImages);
  const auto text = details->to_json();
  require(TestDetails::from_json(text, kInputName).to_json() == text,
          "what was written is read as something else");
}

std::vector<Seed> test_details_seeds() {
  return {{"three_classes", testing::made_up_details(3).to_json()},
          {"many_classes", testing::made_up_details(25).to_json()}};
}

}  // namespace

FuzzTarget test_details_target() { return {"test_details", read_details, test_details_seeds}; }

}  // namespace adaact::fuzz
