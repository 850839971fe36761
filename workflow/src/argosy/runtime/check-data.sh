# bash check-data.sh [TARGET MODE PATH]... -- COMMAND...: check this node's access to the data, then run the command.
#
# TARGET is a path in the container, MODE `r`, `w` or `s` (read from a copy on the node), PATH a path of the host.
# Native agents get them in ARGOSY_DATA: a line each, separated by a tab.
set -euo pipefail

# refuse TARGET PROBLEM
refuse() {
    echo "argosy: node $ARGOSY_NODE on $(uname -n) did not start: $ARGOSY_DATA_KEY.$1: $2; write a path that every node sees, there or in ${ARGOSY_SITE_FILE%/*}/data.yaml" >&2
    exit 2
}

ARGOSY_DATA=
while [ "$1" != -- ]; do
    target=$1 mode=$2 path=$3
    shift 3
    ARGOSY_DATA+="$target"$'\t'"$path"$'\n'
    if [ "${path#/}" = "$path" ]; then
        refuse "$target" "$path is not an absolute path"
    elif ! [ -e "$path" ]; then
        if [ -L "$path" ]; then refuse "$target" "$path is a link to $(readlink -- "$path"), which is missing"; fi
        refuse "$target" "$path is missing"
    elif ! [ -d "$path" ] && ! [ -f "$path" ]; then
        refuse "$target" "$path is neither a folder nor a file"
    elif ! [ -r "$path" ] || { [ -d "$path" ] && ! [ -x "$path" ]; }; then
        refuse "$target" "$path is not readable"
    elif [ "$mode" = w ]; then
        if ! [ -w "$path" ]; then refuse "$target" "$path is not writable"; fi
    elif [ -d "$path" ] && [ -z "$(find "$path/" -mindepth 1 -maxdepth 1 -print -quit)" ]; then
        refuse "$target" "$path is empty"
    elif [ -f "$path" ] && ! [ -s "$path" ]; then
        refuse "$target" "$path is empty"
    fi
done
shift
if [ -n "${ARGOSY_WORKLOADS:-}" ]; then export ARGOSY_DATA; fi
exec "$@"
