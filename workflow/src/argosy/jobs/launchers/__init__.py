"""A launcher says which variables make a process a rank; the agent in the container sets them.

The values are in Python's format syntax over `rank`, `size`, `local_rank`, `local_size`, `node`,
`nodes`, `head_address`, `head_port`, `rendezvous_address`, `rendezvous_port`, `master_port`, `interface`
and `timeline`.
"""

from collections.abc import Mapping

from argosy.jobs.launchers import horovod, plain, torch

LAUNCHERS: Mapping[str, Mapping[str, str]] = {
    "horovod": horovod.RANK_ENVIRONMENT,
    "torch": torch.RANK_ENVIRONMENT,
    "plain": plain.RANK_ENVIRONMENT,
}
