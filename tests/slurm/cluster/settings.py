"""What can be chosen about a cluster, and where its files are."""

import getpass
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cluster.errors import ClusterError
from cluster.offers import Offers

LOGIN_ADDRESS = "10.77.0.254"
FAST_NETWORK = "10.88.0.0/24"
CONTROLLER_PORT = 16817
NODE_PORT = 16818
ACCOUNTING_PORT = 16819
DATABASE_PORT = 16820

CPUS = 4
MEMORY_MB = 4000

_LONGEST_SOCKET = 107
_LAST_STEP = 0xFFFFFFFD
"""Slurm counts the steps of its own, such as that of the batch script, down from here."""


def new_first_job_id() -> int:
    """A job id that no other cluster of the last two weeks has used: 50 are set aside for a second."""
    return int(time.time() * 50) % 67_000_000 + 1


@dataclass(frozen=True)
class Settings:
    """One cluster."""

    folder: Path
    nodes: int = 4
    accounting: bool = False
    min_job_age_s: int = 300
    grace_s: int = 10
    message_timeout_s: int = 10
    signal_at_preemption: bool = False
    outlive: bool = False
    offers: Offers | None = None
    site_lines: str | None = None
    """Of slurm.conf, in place of the usual partitions."""
    layers: dict[str, str] = field(default_factory=dict)
    """Folders of unpacked packages, by the folder of the machine over which each is laid."""
    first_job_id: int = field(default_factory=new_first_job_id)
    user: str = field(default_factory=getpass.getuser)

    @property
    def etc(self) -> Path:
        """What is /etc/slurm in the cluster."""
        return self.folder / "etc"

    @property
    def hosts(self) -> Path:
        """What is /etc/hosts in the cluster."""
        return self.folder / "hosts"

    @property
    def logs(self) -> Path:
        """The daemons' logs."""
        return self.folder / "log"

    @property
    def scratch(self) -> Path:
        """A folder that is another one, in memory, on each node."""
        return self.folder / "scratch"

    @property
    def devices(self) -> Path:
        """What Slurm takes for GPUs."""
        return self.folder / "dev"

    @property
    def munge_socket(self) -> Path:
        """Where munged answers."""
        return self.folder / "munge" / "socket"

    @property
    def database(self) -> Path:
        """The files of MariaDB."""
        return self.folder / "database"

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node_name(number) for number in range(1, self.nodes + 1)]

    def make_folders(self) -> None:
        """Make the cluster's folder, which must not be there.

        Raises:
            ClusterError: when it is, or when its path is too long for a socket.
        """
        node = self.names[-1]
        socket_of_step = self.folder / "spool" / node / f"{node}_{self.first_job_id}.{_LAST_STEP}"
        if max(len(str(self.database / "socket")), len(str(socket_of_step))) > _LONGEST_SOCKET:
            raise ClusterError(f"{self.folder}: the path is too long for sockets in it")
        try:
            self.folder.mkdir(parents=True, mode=0o755)
        except FileExistsError:
            raise ClusterError(f"{self.folder} is there already: stop that cluster first") from None
        spools = [f"spool/{name}" for name in self.names]
        for name in ("dev", "etc", "log", "munge", "pids", "scratch", "state", "spool", *spools):
            (self.folder / name).mkdir()

    def save(self) -> None:
        """Keep the settings for who opens the cluster later."""
        text = json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1)
        (self.folder / "cluster.json").write_text(text)

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """The settings of the cluster in `folder`.

        Raises:
            ClusterError: when there is none.
        """
        try:
            known = json.loads((folder / "cluster.json").read_text())
        except FileNotFoundError:
            raise ClusterError(f"no cluster in {folder}") from None
        offers = known["offers"] and Offers(**known["offers"])
        return cls(**{**known, "folder": folder, "offers": offers})


def node_name(number: int) -> str:
    """The name of a node, counted from 1."""
    return f"node{number}"


def address(number: int) -> str:
    """A node's address on the network that Slurm uses."""
    return f"10.77.0.{number}"


def fast_address(number: int) -> str:
    """A node's address on the second network, which stands for the fast one."""
    return f"10.88.0.{number}"
