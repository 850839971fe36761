# bash native-node.sh LOGS COMMAND...: run a node's agent without a container.
# Its output goes on and into LOGS/node-<n>.log, which outlives the signals that end the job.
exec > >(trap '' TERM INT HUP USR1; exec tee -a "$1/node-$ARGOSY_NODE.log") 2>&1
shift
if [ -n "${ARGOSY_NATIVE:-}" ]; then
    if ! [ -x "$ARGOSY_NATIVE/bin/python3" ]; then
        echo "error: $(uname -n) cannot run $ARGOSY_NATIVE/bin/python3: the project and the store of images have to lie where compute nodes see them"
        exit 127
    fi
    PATH="$ARGOSY_NATIVE/bin:$PATH"
fi
if ! command -v -- "$1" >/dev/null; then
    echo "error: there is no $1 in PATH ($PATH): without a container (\`runtime: native\`) nodes need one"
    exit 127
fi
exec "$@"
