"""Checks that the site of Snakemake's profile is the one that runs go to."""

import argparse
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from argosy.errors import ArgosyError

VARIABLE = "SNAKEMAKE_PROFILE"


def check_profile(site: str, said: Collection[str], arguments: Sequence[str]) -> None:
    """Refuse a `--config` that has dropped the site of the profile.

    Snakemake lets `--config` on the command line replace all of the profile's `config`. The runs would go
    to the site of config.yaml, which is often the login node itself.

    Args:
        site: the runs go to.
        said: the keys of `config` from the command line, or else from the profile.
        arguments: Snakemake's own, without its name.

    Raises:
        ArgosyError: naming the key to add.
    """
    if "site" in said:
        return
    for profile in _profiles(arguments):
        if profile.name != site:
            raise ArgosyError(
                f"--config: replaces `config` of the profile {profile}, so the runs would go to {site}",
                f"add site={profile.name} to --config",
            )


def _profiles(arguments: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of sites that the command line, or else the variable, names as profiles."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="extend", nargs="+", default=[])
    asked = parser.parse_known_args(list(arguments))[0].profile
    for name in asked or [os.environ.get(VARIABLE, "")]:
        folder = Path(name) if Path(name).is_dir() else Path(name).parent
        if (folder / "site.yaml").is_file():
            yield folder
