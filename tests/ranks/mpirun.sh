#!/bin/sh
# mpirun as tests start it: mpirun.sh MPIRUN -n 3 PROGRAM ...
#
# There may be more processes than cores, and in a container it is root who starts them. Each has one thread.
export OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# Open MPI's now and then dies of a broken pipe when all ranks have ended well: openpmix/openpmix, issue 1863.
trap '' PIPE
exec "$@"
