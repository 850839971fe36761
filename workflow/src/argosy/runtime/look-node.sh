# bash look-node.sh FOLDER LOOK.PY ARGUMENT... -- PYTHON...: what the launcher of a probe's job starts once
# on each node. The first PYTHON that runs here looks at the node (node_look.py); all that run are told.
#
# ARGOSY_NODE_VARIABLE names the variable in which the launcher tells the number of the node.
set -u
umask 077

variable="${ARGOSY_NODE_VARIABLE:-}"
number="${variable:+${!variable:-}}"
command=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
    command+=("$1")
    shift
done
shift

running=()
for python in "$@"; do
    # A command of a name may be there and not run: for another processor, or with a broken library.
    if version="$("$python" -I -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"; then
        running+=("$python=$version")
        chosen="${chosen:-$python}"
    fi
done
if [ -z "${chosen:-}" ]; then
    echo "argosy: node $(uname -n) has no Python" >&2
    exit 3
fi
ARGOSY_PYTHONS="$(printf '%s\n' "${running[@]}")" ARGOSY_NODE="${number:-0}" exec "$chosen" -I -S "${command[@]}"
