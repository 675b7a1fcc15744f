#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <adaact/ranks/communicator.h>
#include <mpi.h>

namespace adaact {

/// Throws RankError unless a call of MPI succeeded. `call`: its name.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RankError(std::string(call) +
                  " failed: " + std::string(text, static_cast<std::size_t>(length)));
}

/// Whether all of these calls have come to their end.
inline bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
      "MPI_Testall");
  return done != 0;
}

}  // namespace adaact
