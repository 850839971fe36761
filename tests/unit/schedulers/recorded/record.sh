# bash record.sh FOLDER, on the login side of a test cluster with accounting: record what Slurm answers to Argosy's
# questions, while jobs are in several states. In the recordings here, ids of jobs begin at 101, and folders,
# the user's name and id, and the kernel are others. Separators, headers, the first column's double and the
# unix times of older recordings were put in as these commands print them. Slurm 20.11.9, 24.11.7 and 25.11.7 were
# built from their sources.
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
export SLURM_TIME_FORMAT=%s
end='|argosy|' layout=JobID:$end
for field in JobID State Reason RestartCnt NodeList Name TimeUsed TimeLeft StartTime WorkDir; do layout=$layout,$field:$end; done
squeue --all --me --states=all --Format="$layout" >"$out/squeue.txt"
sacct --parsable --delimiter="$end" --allocations --duplicates --format=JobIDRaw,JobIDRaw,State \
    --jobs="$completed,$failed,$cancelled,$running,$later,$requeued" >"$out/sacct.txt"
sacctmgr --parsable show qos format=name,maxwall >"$out/qos.txt"
sacctmgr --parsable show assoc user="$(id -un)" format=user,account >"$out/assoc.txt"
sacctmgr --parsable show user -s "$(id -un)" format=user,defaultaccount >"$out/user.txt"
layout=%R$end
for field in %R %P %n %c %m %G %f %t %E; do layout=$layout$field$end; done
sinfo -N --format="$layout" >"$out/nodes.txt"
scontrol show node -o >"$out/node.txt"
scontrol show partition -o >"$out/partition.txt"
