# bash check-data.sh COMMAND...: check that this node sees the data in ARGOSY_DATA, then run the command.
#
# Each line of ARGOSY_DATA has a path in the container, `r` or `w`, and the path of the host, with tabs between.
set -euo pipefail

# refuse TARGET PROBLEM
refuse() {
    echo "argosy: node $ARGOSY_NODE on $(uname -n) did not start: $ARGOSY_DATA_KEY.$1: $2; write a path that every node sees, there or in ${ARGOSY_SITE_FILE%/*}/data.yaml" >&2
    exit 2
}

while IFS=$'\t' read -r target mode path; do
    if ! [ -e "$path" ]; then
        if [ -L "$path" ]; then refuse "$target" "$path is a link to $(readlink -- "$path"), which is not there"; fi
        refuse "$target" "$path is not there"
    elif ! [ -d "$path" ] && ! [ -f "$path" ]; then
        refuse "$target" "$path is no folder or file"
    elif ! [ -r "$path" ] || { [ -d "$path" ] && ! [ -x "$path" ]; }; then
        refuse "$target" "$path may not be read"
    elif [ "$mode" = w ]; then
        if ! [ -w "$path" ]; then refuse "$target" "$path may not be written to"; fi
    elif [ -d "$path" ] && [ -z "$(find "$path/" -mindepth 1 -maxdepth 1 -print -quit)" ]; then
        refuse "$target" "$path is empty"
    elif [ -f "$path" ] && ! [ -s "$path" ]; then
        refuse "$target" "$path is empty"
    fi
done <<<"$ARGOSY_DATA"
exec "$@"
