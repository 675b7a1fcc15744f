#include "io/printable.h"

#include <gtest/gtest.h>

namespace {

using adaact::in_one_line;
using adaact::letters_in;
using adaact::printable;

TEST(Printable, LeavesOutWhatATerminalOrAPageWouldObey) {
  EXPECT_EQ(printable("a\x1b[31mb\tc\x7f"), "a [31mb c ");
  EXPECT_EQ(printable("naïve"), "naïve");
  EXPECT_EQ(printable("bad\xff"), "bad�");
}

TEST(Printable, AMessageIsOneLine) {
  EXPECT_EQ(in_one_line("does not fit:\n  missing: a\n  unexpected: b\n"),
            "does not fit: missing: a; unexpected: b");
  EXPECT_EQ(in_one_line("one;\ntwo"), "one; two");
  EXPECT_EQ(in_one_line("\n"), "");
}

TEST(Printable, CountsLettersAndNotBytes) {
  EXPECT_EQ(letters_in("größer"), 6U);
  EXPECT_EQ(letters_in(""), 0U);
}

}  // namespace
