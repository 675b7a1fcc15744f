# Runs data_parallel by itself and on two and three ranks, and compares what they print.
#
#   cmake -D PROGRAM=… -D MPIRUN=… -P run_data_parallel.cmake
#
# MPIRUN is the command that tests start ranks with: tests/ranks/mpirun.sh and mpirun.

execute_process(COMMAND "${CMAKE_COMMAND}" -E env OMP_NUM_THREADS=1 "${PROGRAM}"
  OUTPUT_VARIABLE expected COMMAND_ERROR_IS_FATAL ANY)
message("${expected}")
if(NOT expected MATCHES "step 200  loss 0\\.0")
  message(FATAL_ERROR "the network has not learned to tell the rings apart")
endif()
foreach(ranks 2 3)
  execute_process(COMMAND ${MPIRUN} -n ${ranks} "${PROGRAM}"
    OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed STREQUAL expected)
    message(FATAL_ERROR "${ranks} ranks print other losses:\n${printed}")
  endif()
endforeach()
