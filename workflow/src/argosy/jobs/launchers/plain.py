"""Ranks that find each other by themselves, or need not: they are told who they are, no more."""

from collections.abc import Mapping

RANK_ENVIRONMENT: Mapping[str, str] = {
    "RANK": "{rank}",
    "WORLD_SIZE": "{size}",
    "LOCAL_RANK": "{local_rank}",
    "LOCAL_WORLD_SIZE": "{local_size}",
}
