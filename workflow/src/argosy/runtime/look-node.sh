# bash look-node.sh LOOK.PY ARGUMENT... FOLDER -- PYTHON...: the launcher of a probe's job starts this once
# per node. The first PYTHON that runs surveys the node (node_look.py); ARGOSY_PYTHONS lists all that run.
#
# ARGOSY_NODE_VARIABLE names the launcher's variable with the number of the node, and
# ARGOSY_NODES_VARIABLE its variable with the number of nodes.
set -u
umask 077

variable="${ARGOSY_NODE_VARIABLE:-}"
number="${variable:+${!variable:-}}"
variable="${ARGOSY_NODES_VARIABLE:-}"
nodes="${variable:+${!variable:-}}"
command=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
    command+=("$1")
    shift
done
shift

folder="${command[-1]}"
if ! [ -d "$folder" ]; then
    echo "argosy: $(uname -n) does not see $folder" >&2
    exit 4
fi

running=()
for python in "$@"; do
    # A command may exist and not run: for another processor, or with a broken library.
    if version="$("$python" -I -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"; then
        running+=("$python=$version")
        chosen="${chosen:-$python}"
    fi
done
if [ -z "${chosen:-}" ]; then
    said="$(uname -n) has no Python that runs; asked for were: $*"
    echo "argosy: $said" >&2
    # With this file, the other nodes do not wait for this one.
    echo "$said" >"$folder/${number:-0}.problem"
    exit 3
fi
ARGOSY_PYTHONS="$(printf '%s\n' "${running[@]}")" ARGOSY_NODE="${number:-0}" ARGOSY_NODES="$nodes" \
    "$chosen" -I -S "${command[@]}"
status=$?
if [ "$status" -ne 0 ]; then
    echo "the look at $(uname -n) ended with exit status $status; see job.log" >"$folder/${number:-0}.problem"
fi
exit "$status"
