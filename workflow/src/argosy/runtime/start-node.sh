# bash start-node.sh COMMAND...: the launcher of a job (srun, ibrun) starts this once per node.
#
# ARGOSY_NODE_VARIABLE names the launcher's variable with the number of the node. Some launchers set the first
# node's number everywhere. For them, ARGOSY_NODE_NAMES lists the nodes' names in order: the number is the place
# of this node's name, or else the task's MPI rank, as there is one task per node.
#
# If this node's agent cannot start, the script prints `argosy: node N on HOST did not start: CAUSE`.
# watch_start.py finds this line in the job's log, and reports it to the other nodes.
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

# sweep PREFIX: remove folders of killed jobs on this node, whose lock is free. Folders younger than a minute
# may belong to a job that is starting.
sweep() {
    for left in "$1".??????; do
        if [ -d "$left" ] && [ -O "$left" ] && ! [ -L "$left" ] && [ -n "$(find "$left" -maxdepth 0 -mmin +1)" ]; then
            (if flock -n 8; then rm -rf --one-file-system -- "$left"; fi) 8<"$left" || true
        fi
    done
}

# Temporary files of this job on this node, removed when the job ends. A signal ends the command first, and
# then this shell.
scratch="${ARGOSY_TMPDIR:-/tmp}"
# Nodes may share the scratch folder, and locks there may be local. The name omits the node's domain: the path
# of a socket has at most 107 characters.
node_name="$(uname -n)"
folder="$scratch/argosy-node.${node_name%%.*}"
if ! TMPDIR="$(mktemp -d "$folder.XXXXXX" 2>/dev/null)"; then
    # Try again only for the error message: libraries in LD_PRELOAD may print as well.
    why="$(mktemp -d "$folder.XXXXXX" 2>&1 >/dev/null)" || true
    refuse "no folder for temporary files can be made in $scratch: ${why##*: }; \`tmpdir\` in $site_file names it"
fi
export TMPDIR
if { exec 9<"$TMPDIR" && flock -n 9; } 2>/dev/null; then
    # In the background: large folders must not delay the job.
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
