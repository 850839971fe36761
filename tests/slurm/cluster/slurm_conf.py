"""Renders slurm.conf: a site with queues, limits, preemption and GPUs, quick where real sites are slow."""

from cluster import settings as known
from cluster.settings import Settings

CLUSTER_NAME = "bed"
SLURM_CONF = "/etc/slurm/slurm.conf"


def slurmd_command(number: int) -> list[str]:
    """Starts slurmd on a node."""
    return ["slurmd", "-N", known.node_name(number), "-f", SLURM_CONF]


def slurm_conf(settings: Settings) -> str:
    """The whole file."""
    nodes = [_node(settings, number) for number in range(1, settings.nodes + 1)]
    sections = [
        _daemons(settings),
        _jobs(settings),
        _accounting(settings),
        *nodes,
        _partitions(settings) if settings.site_lines is None else settings.site_lines,
    ]
    return "\n".join(sections)


def _daemons(settings: Settings) -> str:
    folder, logs, user = settings.folder, settings.logs, settings.user
    # cred_expire: a requeued job is held back until the credential of its first run has expired,
    # otherwise 120 s. A busy node that starts a step later than that refuses it.
    return f"""\
ClusterName={CLUSTER_NAME}
SlurmctldHost=login({known.LOGIN_ADDRESS})
SlurmctldPort={known.CONTROLLER_PORT}
SlurmdPort={known.NODE_PORT}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={settings.munge_socket},cred_expire=20
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/pids/slurmctld.pid
SlurmdPidFile={folder}/pids/slurmd.%n.pid
SlurmctldLogFile={logs}/slurmctld.log
SlurmdLogFile={logs}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=15
MessageTimeout={settings.message_timeout_s}
"""


def _jobs(settings: Settings) -> str:
    # EnforcePartLimits=NO, Slurm's default, is the trap that users fall into: sbatch accepts a job
    # beyond its partition's limits, and it stays pending for ever.
    preemption = "SlurmctldParameters=preempt_send_user_signal"
    return f"""\
{preemption if settings.signal_at_preemption else ""}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes={settings.offers.gres_types() if settings.offers else "gpu"}
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PriorityType=priority/basic
EnforcePartLimits=NO
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
MinJobAge={settings.min_job_age_s}
FirstJobId={settings.first_job_id}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
"""


def _accounting(settings: Settings) -> str:
    if not settings.accounting:
        return "AccountingStorageType=accounting_storage/none\n"
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={known.ACCOUNTING_PORT}
AccountingStoragePass={settings.munge_socket}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
"""


def _node(settings: Settings, number: int) -> str:
    """The first half has whole GPUs and a fast disk, the second half slices of GPUs."""
    name = f"NodeName={known.node_name(number)} NodeAddr={known.address(number)}"
    if settings.offers:
        return f"{name} {settings.offers.node()}"
    first_half = number <= (settings.nodes + 1) // 2
    gpus = "gpu:a100:4" if first_half else "gpu:a100_3g.20gb:2"
    return (
        f"{name} CPUs={known.CPUS} Boards=1 SocketsPerBoard=1 CoresPerSocket={known.CPUS} ThreadsPerCore=1"
        f" RealMemory={known.MEMORY_MB} Gres={gpus} Feature={'gpu,nvme' if first_half else 'gpu'}"
    )


def _partitions(settings: Settings) -> str:
    """A job preempts those of a lower tier, where the lower partition allows it.

    So `high` preempts `low`, and `main` and `short` neither preempt nor are preempted.
    """
    return f"""\
PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=1-0 PriorityTier=1 PreemptMode=OFF
PartitionName=short Nodes=ALL MaxTime=10 MaxNodes=2 PriorityTier=1 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=1-0 PriorityTier=1 PreemptMode=REQUEUE GraceTime={settings.grace_s}
PartitionName=high Nodes=ALL MaxTime=1-0 PriorityTier=10 PreemptMode=OFF
{settings.offers.partition_lines() if settings.offers else ""}"""
