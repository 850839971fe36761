"""torch.distributed's ranks, told what torchrun would tell them: DDP, FSDP and what is built on them.

The names are those of torch 2.13, `torch/distributed/rendezvous.py` (the method `env://`) and
`torch/distributed/elastic/agent/server/local_elastic_agent.py`.
"""

from collections.abc import Mapping

from argosy.jobs.launchers import plain

RANK_ENVIRONMENT: Mapping[str, str] = {
    **plain.RANK_ENVIRONMENT,
    "MASTER_ADDR": "{head_address}",
    # Rank 0 listens there by itself, as soon as it gets so far.
    "MASTER_PORT": "{master_port}",
    "GROUP_RANK": "{node}",
    "GROUP_WORLD_SIZE": "{nodes}",
    "ROLE_NAME": "default",
    "ROLE_RANK": "{rank}",
    "ROLE_WORLD_SIZE": "{size}",
    # By these Lightning and others believe in torchrun before they believe in what they see of a scheduler.
    "TORCHELASTIC_RUN_ID": "argosy",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "False",
    # Left to itself Gloo takes the address of the host's name, which may be one that no other node reaches.
    "GLOO_SOCKET_IFNAME": "{interface}",
    "TP_SOCKET_IFNAME": "{interface}",
}
