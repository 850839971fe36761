# bash start-node.sh COMMAND...: what the launcher of a job (srun, ibrun) starts once on each node.
#
# srun tells a task the number of its node. Other launchers may hand on the first node's number to all;
# where ARGOSY_NODE_NAMES holds the nodes' names, in order, the number is the place of this one's name,
# or the task's MPI rank, as there is one task a node.
set -euo pipefail

if [ -n "${ARGOSY_NODE_NAMES:-}" ]; then
    ARGOSY_NODE=
    number=0
    for name in $ARGOSY_NODE_NAMES; do
        if [ "${name%%.*}" = "$(hostname -s)" ]; then ARGOSY_NODE=$number; fi
        number=$((number + 1))
    done
    for rank in PMI_RANK PMIX_RANK MV2_COMM_WORLD_RANK OMPI_COMM_WORLD_RANK; do
        ARGOSY_NODE="${ARGOSY_NODE:-${!rank:-}}"
    done
    if [ -z "$ARGOSY_NODE" ]; then
        echo "argosy: $(hostname -s) is not among the job's nodes, and the launcher set no rank" >&2
        exit 2
    fi
else
    ARGOSY_NODE="$SLURM_NODEID"
fi
export ARGOSY_NODE

# Temporary files of this job on this node, gone when it ends. A signal that ends the job ends the
# command first, and then this shell.
TMPDIR="$(mktemp -d "${ARGOSY_TMPDIR:-/tmp}/argosy-node.XXXXXX")"
export TMPDIR
trap 'rm -rf -- "$TMPDIR"' EXIT
trap : TERM INT HUP

status=0
"$@" || status=$?
exit "$status"
