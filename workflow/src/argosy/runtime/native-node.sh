# bash native-node.sh LOGS COMMAND...: run a node's agent without a container.
# Its output goes on and into LOGS/node-<n>.log, which outlives the signals that end the job.
exec > >(trap '' TERM INT HUP USR1; exec tee -a "$1/node-$ARGOSY_NODE.log") 2>&1
shift
if ! command -v -- "$1" >/dev/null; then
    echo "error: there is no $1 in PATH ($PATH): without a container (\`runtime: native\`) nodes need one"
    exit 127
fi
exec "$@"
