# bash record.sh FOLDER, on the login side of a test cluster with accounting: record what Slurm answers to Argosy's
# questions, while jobs are in several states. In the recordings here, ids of jobs begin at 101, and folders,
# the user's id and the kernel are others. Slurm 20.11.9, 24.11.7 and 25.11.7 were built from their sources.
set -eu
mkdir -p "$1" "project/a | b"
out=$(realpath "$1")
cd project
submit() { sbatch --parsable --output=/dev/null --mem=100M "$@"; }
completed=$(submit --job-name=completed --wrap true)
failed=$(submit --job-name=failed --wrap 'exit 3')
cancelled=$(submit --job-name=cancelled --wrap 'sleep 600')
running=$(submit --job-name=running --time=30 --chdir "$PWD/a | b" --wrap 'sleep 600')
later=$(submit --job-name='two words' --begin=now+1hour --wrap true)
requeued=$(submit --job-name=requeued --requeue --wrap 'sleep 600')
sleep 4
scancel "$cancelled"
scontrol requeuehold "$requeued"
submit --job-name=dependent --dependency="afterok:$failed" --wrap true
submit --job-name=many --nodes=4 --exclusive --time=20 --wrap true
sleep 9
layout=
for field in JobID State Reason RestartCnt NodeList Name TimeUsed TimeLeft StartTime WorkDir; do layout=$layout,$field:\|; done
squeue --noheader --all --me --states=all --Format="${layout#,}" >"$out/squeue.txt"
sacct --noheader --parsable2 --allocations --duplicates --format=JobIDRaw,State \
    --jobs="$completed,$failed,$cancelled,$running,$later,$requeued" >"$out/sacct.txt"
sacctmgr -nP show qos format=name,maxwall >"$out/qos.txt"
sacctmgr -nP show assoc user="$(id -un)" format=account >"$out/assoc.txt"
sacctmgr -nP show user -s "$(id -un)" format=defaultaccount >"$out/user.txt"
sinfo -h '--format=%R|%P|%l|%s|%a' >"$out/partitions.txt"
sinfo -h -N '--format=%R|%P|%n|%c|%m|%G|%f|%t|%E' >"$out/nodes.txt"
scontrol show node -o >"$out/node.txt"
scontrol show partition -o >"$out/partition.txt"
