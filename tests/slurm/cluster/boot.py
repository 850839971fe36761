"""The order in which a cluster comes up."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import accounting, daemons, fabric, files
from cluster.errors import ClusterError
from cluster.node import Node
from cluster.place import Place, system_environment
from cluster.processes import wait_until
from cluster.programs import python_module
from cluster.settings import Settings

_PATIENCE_S = 60
_TELLING = re.compile(r"fatal|error|cannot|denied|not permitted", re.IGNORECASE)
_MOST_LINES = 20


def login_place(settings: Settings) -> Place:
    """The login side of a cluster."""
    return Place("login", (fabric.MODULE, str(settings.folder)))


def boot(settings: Settings, owner: int) -> None:
    """Start everything in the cluster's folder and wait until all nodes are idle.

    Raises:
        ClusterError: when something does not come up.
    """
    settings.save()
    files.write_all(settings)
    _make_login_side(settings, owner)
    login = login_place(settings)
    daemons.munge(settings, login).start()
    wait_until(settings.munge_socket.exists, "munge", _PATIENCE_S)
    if settings.accounting:
        accounting.start(settings, login)
    daemons.controller(settings, login).start()
    nodes = [Node(number, settings, login) for number in range(1, settings.nodes + 1)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(Node.power_on, nodes))
    wait_until_idle(settings, login)


def wait_until_idle(settings: Settings, login: Place) -> None:
    """Wait until all nodes are idle.

    Raises:
        ClusterError: when they do not become so, or the controller ends.
    """
    controller = daemons.controller(settings, login)
    wait_until(lambda: _all_idle(settings, login, controller), "all nodes idle", _PATIENCE_S)


def telling_lines(logs: Path) -> list[str]:
    """What the daemons' logs say about a failure: those that were fatal, or else all of them."""
    texts = {path.name: path.read_text(errors="replace") for path in sorted(logs.glob("*"))}
    fatal = {name: text for name, text in texts.items() if "fatal" in text}
    lines = [
        f"{name}: {line}"
        for name, text in (fatal or texts).items()
        for line in text.splitlines()
        if _TELLING.search(line)
    ]
    return lines[-_MOST_LINES:]


def _make_login_side(settings: Settings, owner: int) -> None:
    log = settings.logs / "login.log"
    with log.open("a") as stream:
        done = subprocess.run(
            python_module(*login_place(settings).module),
            stdin=owner,
            stdout=stream,
            stderr=stream,
            env=system_environment(),
            check=False,
        )
    if done.returncode:
        raise ClusterError(f"no namespaces: {log.read_text().strip()}")


def _all_idle(settings: Settings, login: Place, controller: daemons.Daemon) -> bool:
    if not controller.processes():
        raise ClusterError("slurmctld has ended")
    state = login.run(
        "login", "sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", check=False
    )
    return len(set(state.stdout.split())) == settings.nodes
