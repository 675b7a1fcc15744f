# Tests by real processes, which mpirun starts: the cases of mpi_*_cases.cpp, which all ranks run at the same time, and
# mpi_faults_test.cpp, which starts ranks that fail.

# A command, to which the number of ranks and a program are added; empty where there is none.
set(ADAACT_MPIRUN)
if(ADAACT_WITH_MPI AND MPIEXEC_EXECUTABLE)
  set(ADAACT_MPIRUN "${CMAKE_CURRENT_SOURCE_DIR}/ranks/mpirun.sh" "${MPIEXEC_EXECUTABLE}" -n)

  set(cases "${CMAKE_CURRENT_SOURCE_DIR}/ranks")
  add_executable(ranks_mpi_tests "${cases}/mpi_main.cpp" "${cases}/mpi_sums_cases.cpp")
  target_link_libraries(ranks_mpi_tests PRIVATE adaact GTest::gtest)
  if(ADAACT_BUILD_LAB)
    target_sources(ranks_mpi_tests PRIVATE "${cases}/mpi_data_cases.cpp" "${cases}/mpi_training_cases.cpp")
    target_link_libraries(ranks_mpi_tests PRIVATE adaact_lab)
  endif()
  target_include_directories(ranks_mpi_tests PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  adaact_use_precompiled_header(ranks_mpi_tests)
  adaact_unite_by_room(ranks_mpi_tests)

  add_executable(ranks_mpi_faults ranks/mpi_faults.cpp)
  target_link_libraries(ranks_mpi_faults PRIVATE adaact)
  adaact_use_precompiled_header(ranks_mpi_faults)
endif()

foreach(size RANGE 1 4)
  set(name ranks_mpi_tests_on_${size})
  if(ADAACT_MPIRUN)
    add_test(NAME ${name} COMMAND ${ADAACT_MPIRUN} ${size} $<TARGET_FILE:ranks_mpi_tests>)
  else()
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "[  SKIPPED ] without MPI or without mpirun")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ranks TIMEOUT 120 PROCESSORS ${size})
endforeach()

# Ranks that share a GPU.
if(ADAACT_MPIRUN AND ADAACT_WITH_CUDA AND ADAACT_BUILD_LAB)
  add_executable(ranks_mpi_gpu_tests ranks/mpi_main.cpp cuda/mpi_gpu_cases.cpp cuda/shared_gpu_ranks.cu)
  target_link_libraries(ranks_mpi_gpu_tests PRIVATE adaact_lab GTest::gtest)
  target_include_directories(ranks_mpi_gpu_tests PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  adaact_use_precompiled_header(ranks_mpi_gpu_tests)
  set_target_properties(ranks_mpi_gpu_tests PROPERTIES UNITY_BUILD OFF)
  foreach(size 2 3)
    set(name ranks_mpi_gpu_tests_on_${size})
    add_test(NAME ${name} COMMAND ${ADAACT_MPIRUN} ${size} $<TARGET_FILE:ranks_mpi_gpu_tests>)
    set_tests_properties(${name} PROPERTIES
      LABELS cuda TIMEOUT 300 PROCESSORS ${size} SKIP_REGULAR_EXPRESSION "${ADAACT_SKIPPED}")
  endforeach()
endif()

set(executable mpi_faults_test)
if(CMAKE_UNITY_BUILD)
  set(executable ranks_tests)
endif()
list(JOIN ADAACT_MPIRUN "\", \"" words)
if(ADAACT_MPIRUN)
  set(faults "$<TARGET_FILE:ranks_mpi_faults>")
  add_dependencies(${executable} ranks_mpi_faults)
else()
  set(faults)
endif()
target_compile_definitions(${executable} PRIVATE ADAACT_MPIRUN="${words}" ADAACT_MPI_FAULTS="${faults}")
set_tests_properties(mpi_faults_test PROPERTIES
  TIMEOUT 300 COST 90 SKIP_REGULAR_EXPRESSION "${ADAACT_SKIPPED}")
