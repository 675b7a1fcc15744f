# Trains a model in a moment, lets examples/classify.cpp serve it, and looks at its answers.
#
#   cmake -D TOOL=… -D PROGRAM=… -D PICTURE=… -D WORK_DIR=… -P run_classify.cmake
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
execute_process(
  COMMAND "${TOOL}" train --out "${WORK_DIR}/run" --dataset synthetic --limit-train 64 --limit-test 16
    --epochs 1 --quiet
  COMMAND_ERROR_IS_FATAL ANY)
file(WRITE "${WORK_DIR}/names" "${PICTURE}\n${WORK_DIR}/nothing.png\n${PICTURE}\n")
execute_process(
  COMMAND "${PROGRAM}" "${WORK_DIR}/run/model.safetensors"
  INPUT_FILE "${WORK_DIR}/names"
  OUTPUT_VARIABLE answers
  COMMAND_ERROR_IS_FATAL ANY)
set(expected "^${PICTURE}\t([^\t\n]+)\t0\\.[0-9]+\n${WORK_DIR}/nothing.png\tno picture\t0\n${PICTURE}\t([^\t\n]+)\t")
if(NOT answers MATCHES "${expected}")
  message(FATAL_ERROR "classify answered:\n${answers}")
endif()
if(NOT CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_2)
  message(FATAL_ERROR "the same picture is ${CMAKE_MATCH_1} and ${CMAKE_MATCH_2}")
endif()
