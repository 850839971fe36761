# bash native-node.sh LOGS COMMAND...: run a node's agent without a container.
# Its output goes on and into LOGS/node-<n>.log, which outlives the signals that end the job.
exec > >(trap '' TERM INT HUP USR1; exec tee -a "$1/node-$ARGOSY_NODE.log") 2>&1
shift
exec "$@"
