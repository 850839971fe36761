"""A launcher says which variables make a process a rank; the agent in the container sets them.

The values are in Python's format syntax over `rank`, `size`, `local_rank`, `local_size`, `node`,
`nodes`, `head_address`, `head_port`, `rendezvous_address`, `rendezvous_port`, `master_port`, `interface`
and `timeline`.
"""

from collections.abc import Mapping

PLAIN: Mapping[str, str] = {
    "RANK": "{rank}",
    "WORLD_SIZE": "{size}",
    "LOCAL_RANK": "{local_rank}",
    "LOCAL_WORLD_SIZE": "{local_size}",
}
"""Ranks that find each other by themselves, or need not: they are told who they are, no more."""

TORCH: Mapping[str, str] = {
    **PLAIN,
    "MASTER_ADDR": "{head_address}",
    # Rank 0 listens there by itself, as soon as it gets so far.
    "MASTER_PORT": "{master_port}",
    "GROUP_RANK": "{node}",
    "GROUP_WORLD_SIZE": "{nodes}",
    "ROLE_NAME": "default",
    "ROLE_RANK": "{rank}",
    "ROLE_WORLD_SIZE": "{size}",
    # Lightning and others look for these before they look for a scheduler.
    "TORCHELASTIC_RUN_ID": "argosy",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "False",
    # Left to itself Gloo takes the address of the host's name, which may be one that no other node reaches.
    "GLOO_SOCKET_IFNAME": "{interface}",
    "TP_SOCKET_IFNAME": "{interface}",
}
"""torch.distributed's ranks, told what torchrun would tell them: DDP, FSDP and what is built on them.

The names are those of torch 2.13, `torch/distributed/rendezvous.py` (the method `env://`) and
`torch/distributed/elastic/agent/server/local_elastic_agent.py`.
"""

HOROVOD: Mapping[str, str] = {
    "HOROVOD_RANK": "{rank}",
    "HOROVOD_SIZE": "{size}",
    "HOROVOD_LOCAL_RANK": "{local_rank}",
    "HOROVOD_LOCAL_SIZE": "{local_size}",
    "HOROVOD_CROSS_RANK": "{node}",
    "HOROVOD_CROSS_SIZE": "{nodes}",
    # Equal within a node and distinct between nodes: this is how ranks find who shares memory.
    "HOROVOD_HOSTNAME": "node{node}",
    "HOROVOD_CONTROLLER": "gloo",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "{rendezvous_address}",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "{rendezvous_port}",
    "HOROVOD_GLOO_IFACE": "{interface}",
    # The default of 30 s is too short where containers start unevenly.
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "300",
}
"""Horovod's ranks without ssh, MPI or horovodrun: Gloo finds its peers through the agent's rendezvous.

The names are those that Horovod 0.28.1 reads in horovod/common/gloo/gloo_context.cc.
"""

_LEAST_HANG_TIMEOUT_S = 60
_CHECKS = 5


def stall_environment(hang_timeout: int | None) -> Mapping[str, str]:
    """Have Horovod say which ranks it misses before the agents call that a hang.

    It looks in intervals of this time, and of tensors that it knows already it speaks after up to four.

    Args:
        hang_timeout: seconds; None: as the run's steps suggest, which is a minute at least; 0: never.
    """
    if hang_timeout == 0:
        return {}
    seconds = max(1, (hang_timeout or _LEAST_HANG_TIMEOUT_S) // _CHECKS)
    # Its own default is 60 s.
    return {"HOROVOD_STALL_CHECK_TIME_SECONDS": str(min(60, seconds))}


TIMELINE_ENVIRONMENT: Mapping[str, str] = {
    # Rank 0 alone writes it, but every rank has to be told: one that has a timeline sends vectors of
    # twice the length (horovod/common/response_cache.cc), and the job would hang until Gloo gives up.
    "HOROVOD_TIMELINE": "{timeline}",
}

LAUNCHERS: Mapping[str, Mapping[str, str]] = {
    "horovod": HOROVOD,
    "torch": TORCH,
    "plain": PLAIN,
}
