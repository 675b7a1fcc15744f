# MPI, by which processes train together. Without it src/ranks/mpi_without.cpp says that there is none.
#
#   ADAACT_MPI=AUTO   take one that is there
#   ADAACT_MPI=ON     fail without one
#   ADAACT_MPI=OFF    do not look for one
#
# Sets ADAACT_WITH_MPI.

set(ADAACT_MPI AUTO CACHE STRING "MPI for training by many processes: AUTO, ON or OFF")
set_property(CACHE ADAACT_MPI PROPERTY STRINGS AUTO ON OFF)

set(ADAACT_WITH_MPI OFF)
if(NOT ADAACT_MPI STREQUAL "OFF")
  # Its interface for C is what is used. The component of that name would make C a language of this project and of
  # every project that uses it.
  set(MPI_CXX_SKIP_MPICXX ON)
  if(ADAACT_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS CXX)
  else()
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)
    set(ADAACT_WITH_MPI ON)
  endif()
endif()
if(ADAACT_WITH_MPI)
  list(GET MPI_CXX_LIBRARIES -1 library)
  message(STATUS "MPI: ${library}")
else()
  message(STATUS "MPI: none")
endif()
