# bash native-node.sh LOGS PYTHON COMMAND...: run a node's agent without a container. PYTHON is Argosy's own, for
# hosts whose python3 is too old for the agent; the program still gets the host's python3.
# The output also goes into LOGS/node-<n>.log, whose `tee` ignores the signals that end the job.
exec > >(trap '' TERM INT HUP USR1; exec tee -a "$1/node-$ARGOSY_NODE.log") 2>&1
# As in a container, hide the variables of the scheduler and its launcher, which count nodes as tasks, and of
# a launcher around the driver. The agent sets the ranks' variables.
unset -v "${!SLURM@}" "${!SBATCH_@}" "${!SRUN_@}" "${!SALLOC_@}" "${!PMI@}" "${!OMPI_@}" "${!PRTE_@}" \
    "${!MPI_LOCAL@}" "${!MV2_COMM_@}" "${!HYDRA_@}" "${!HYDI_@}" "${!PALS_@}" "${!ALPS_@}" "${!FLUX_@}" \
    "${!LSB_@}" "${!JSM_@}" "${!PBS_@}" "${!HOROVOD_@}" "${!TORCHELASTIC_@}" RANK WORLD_SIZE LOCAL_RANK \
    LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT
# Relative paths of a command begin in the project.
if [ -n "${ARGOSY_WORKLOADS:-}" ]; then
    cd -- "${ARGOSY_WORKLOADS%/containers/workloads}"
fi
# The driver has put the folder of Argosy's commands, which has a Python as well, before the user's.
if [ -n "${ARGOSY_COMMANDS:-}" ]; then
    PATH=":$PATH:"
    PATH="${PATH/":$ARGOSY_COMMANDS:"/:}"
    PATH="${PATH#:}"
    PATH="${PATH%:}"
fi
own=$2
shift 2
if [ -n "${ARGOSY_NATIVE:-}" ]; then
    if ! [ -x "$ARGOSY_NATIVE/bin/python3" ]; then
        echo "error: $(uname -n) cannot run $ARGOSY_NATIVE/bin/python3: the project and the store of images have to lie where compute nodes see them"
        exit 127
    fi
    PATH="$ARGOSY_NATIVE/bin:$PATH"
elif [ "$1" = python3 ] && ! python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    shift
    set -- "$own" "$@"
fi
if ! command -v -- "$1" >/dev/null; then
    echo "error: there is no $1 in PATH ($PATH): without a container (\`runtime: native\`) nodes need one"
    exit 127
fi
exec "$@"
