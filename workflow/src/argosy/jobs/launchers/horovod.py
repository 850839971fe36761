"""Horovod's ranks without ssh, MPI or horovodrun: Gloo finds its peers through the agent's rendezvous.

The names are those that Horovod 0.28.1 reads in horovod/common/gloo/gloo_context.cc.
"""

from collections.abc import Mapping

RANK_ENVIRONMENT: Mapping[str, str] = {
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
