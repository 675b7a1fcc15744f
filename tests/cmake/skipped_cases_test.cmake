# cmake -DPROGRAM=… -DSKIPPED=… -P skipped_cases_test.cmake: PROGRAM (skips_and_fails.cpp) prints what CTest takes for
# the sign of a skipped test, SKIPPED, if a case is skipped and none fails.

function(expect filter status is_told)
  execute_process(COMMAND "${PROGRAM}" "--gtest_filter=${filter}" RESULT_VARIABLE result OUTPUT_VARIABLE printed)
  set(told OFF)
  if(printed MATCHES "${SKIPPED}")
    set(told ON)
  endif()
  if(NOT result EQUAL status OR NOT told STREQUAL is_told)
    message(FATAL_ERROR "${filter}: status ${result}, told of skips ${told}, expected ${status} and ${is_told}:\n${printed}")
  endif()
endfunction()

expect("*" 1 OFF)
expect("*Fails:*IsSkipped" 1 OFF)
expect("*Passes:*IsSkipped" 0 ON)
expect("*Passes" 0 OFF)
