# Turns the ```cpp blocks of a page into a test program: one test for each heading with a block. The
# block that includes headers is the start of all of them; those before it are shown in the page only. What
# it includes comes first, so that nothing of ours stands in for a header that it forgot.
/^## / { heading = substr($0, 4); gsub(/[^A-Za-z0-9]/, "", heading) }
/^```cpp/ { inside = 1; block = ""; next }
/^```/ && inside {
  inside = 0
  if (block ~ /#include/) {
    start = block
    while (match(start, /#include[^\n]*\n\n?/)) {
      print substr(start, RSTART, RLENGTH)
      start = substr(start, 1, RSTART - 1) substr(start, RSTART + RLENGTH)
    }
    print "#include \"docs/example_support.h\"\n"
  } else if (start == "") {
    early = early block
  } else {
    printf "TEST(OptimizersPage, %s) {\n%s  %s\n", heading, start, "const auto before = loss_of(model, images, labels);"
    printf "%sEXPECT_LT(loss_of(model, images, labels), 0.9 * before);\n}\n\n", block
  }
  next
}
inside { block = block $0 "\n" }
END {
  printf "TEST(OptimizersPage, ByName) {\n%s%s  optimizer->zero_grad();\n}\n", start, early
}
