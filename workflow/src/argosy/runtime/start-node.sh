# bash start-node.sh COMMAND...: what the launcher of a job (srun, ibrun) starts once on each node.
#
# ARGOSY_NODE_VARIABLE names the variable in which the launcher tells the number of the node. Other launchers
# may hand on the first node's number to all; where ARGOSY_NODE_NAMES holds the nodes' names, in order, the number is the place of this one's name,
# or the task's MPI rank, as there is one task a node.
#
# Whatever keeps this node's agent from starting is said in one line, `argosy: node N on HOST did not
# start: CAUSE`, which watch_start.py finds in the job's log and passes on to the other nodes.
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
    variable="${ARGOSY_NODE_VARIABLE:-}"
    ARGOSY_NODE="${variable:+${!variable:-}}"
    if [ -z "$ARGOSY_NODE" ]; then
        echo "argosy: $(uname -n) does not know which node of the job it is: ARGOSY_NODE_VARIABLE names no variable that the launcher sets" >&2
        exit 2
    fi
fi
export ARGOSY_NODE
# A launcher may start tasks with the umask of the login node.
umask "${ARGOSY_UMASK:-077}"

site_file="${ARGOSY_SITE_FILE:-site.yaml}"

# refuse CAUSE [STATUS]
refuse() {
    echo "argosy: node $ARGOSY_NODE on $(uname -n) did not start: $1" >&2
    exit "${2:-2}"
}

if [ -n "${ARGOSY_RECORDS:-}" ] && ! [ -d "$ARGOSY_RECORDS" ]; then
    refuse "it does not see $ARGOSY_RECORDS, which the job's first node has made: results/ must be on a file system that all nodes share"
elif [ -n "${ARGOSY_RECORDS:-}" ] && ! [ -w "$ARGOSY_RECORDS" ]; then
    refuse "it may not write to $ARGOSY_RECORDS: results/ must be on a file system that all nodes can write to"
fi
if ! command -v -- "$1" >/dev/null; then
    refuse "it cannot run $1, by which Argosy was started where the job was planned: Argosy's environment (.venv) and the Python that it was made with have to lie where compute nodes see them"
fi

# sweep PREFIX: removes what jobs left on this node whose processes were all killed: nobody holds its lock.
# What is younger than a minute may be of a job that is just starting.
sweep() {
    for left in "$1".??????; do
        if [ -d "$left" ] && [ -O "$left" ] && ! [ -L "$left" ] && [ -n "$(find "$left" -maxdepth 0 -mmin +1)" ]; then
            (if flock -n 8; then rm -rf --one-file-system -- "$left"; fi) 8<"$left" || true
        fi
    done
}

# Temporary files of this job on this node, gone when it ends. A signal that ends the job ends the
# command first, and then this shell.
scratch="${ARGOSY_TMPDIR:-/tmp}"
# Scratch may be shared by nodes, and a lock there may count on one of them alone. The node's domain is left
# out: the path of a socket has 107 characters at most.
node_name="$(uname -n)"
folder="$scratch/argosy-node.${node_name%%.*}"
if ! TMPDIR="$(mktemp -d "$folder.XXXXXX" 2>/dev/null)"; then
    # Tried again for its error message alone: a library of LD_PRELOAD may print, too, and that is no folder.
    why="$(mktemp -d "$folder.XXXXXX" 2>&1 >/dev/null)" || true
    refuse "no folder for temporary files can be made in $scratch: ${why##*: }; \`tmpdir\` in $site_file names it"
fi
export TMPDIR
if { exec 9<"$TMPDIR" && flock -n 9; } 2>/dev/null; then
    # Beside the job, which does not wait for large folders to go.
    sweep "$folder" >/dev/null 2>&1 &
fi
trap 'rm -rf -- "$TMPDIR"' EXIT
asked_to_end=
trap 'asked_to_end=yes' TERM INT HUP

status=0
"$@" || status=$?
if [ "$status" != 0 ] && [ -z "$asked_to_end" ] && [ -n "${ARGOSY_RECORDS:-}" ] &&
    ! [ -e "$ARGOSY_RECORDS/node-$ARGOSY_NODE.json" ]; then
    refuse "exit code $status" "$status"
fi
exit "$status"
