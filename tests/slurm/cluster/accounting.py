"""Slurm's accounting: MariaDB, slurmdbd, and one account that the user belongs to."""

from cluster import daemons
from cluster.errors import ClusterError
from cluster.place import Place
from cluster.processes import wait_until
from cluster.settings import DATABASE_PORT, Settings
from cluster.slurm_conf import CLUSTER_NAME

ACCOUNT = "project"
OTHER_ACCOUNT = "grant"
"""The user's as well, but not what jobs pay by that name none."""
QOS = "long"

_PATIENCE_S = 60
_DATABASE_USER = """\
CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm.* TO slurm@'127.0.0.1';
"""


def start(settings: Settings, login: Place) -> None:
    """Start everything and wait until it answers.

    Raises:
        ClusterError: when it does not.
    """
    _start_database(settings, login)
    daemons.accounting(settings, login).start()
    wait_until(lambda: _answers(login, "sacctmgr", "list", "cluster"), "slurmdbd", _PATIENCE_S)
    for words in (
        f"add cluster {CLUSTER_NAME}",
        f"add qos {QOS}",
        f"add account {ACCOUNT}",
        f"add user {settings.user} account={ACCOUNT} defaultaccount={ACCOUNT}",
        f"add account {OTHER_ACCOUNT}",
        f"add user {settings.user} account={OTHER_ACCOUNT}",
        f"modify user {settings.user} set qos=normal,{QOS}",
    ):
        login.run("login", "sacctmgr", "--immediate", *words.split(), timeout=_PATIENCE_S)


def _start_database(settings: Settings, login: Place) -> None:
    files, log = settings.database, settings.logs / "mariadb.log"
    common = ["--no-defaults", f"--datadir={files}", f"--user={settings.user}"]
    quick = ["--skip-test-db", "--auth-root-authentication-method=normal"]
    login.administer("mariadb-install-db", *common, *quick, log=log)
    (settings.folder / "database.sql").write_text(_DATABASE_USER)
    login.administer(
        "setsid",
        "--fork",
        "mariadbd",
        *common,
        f"--socket={files}/socket",
        f"--pid-file={files}/pid",
        "--bind-address=127.0.0.1",
        f"--port={DATABASE_PORT}",
        f"--init-file={settings.folder}/database.sql",
        # Nothing here has to outlive a power failure.
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=16M",
        "--skip-name-resolve",
        log=log,
    )
    ping = ("mariadb-admin", "--no-defaults", f"--socket={files}/socket", "ping")
    wait_until(lambda: _answers(login, *ping), "MariaDB", _PATIENCE_S)


def _answers(login: Place, *command: str) -> bool:
    try:
        login.run("login", *command, timeout=_PATIENCE_S)
    except ClusterError:
        return False
    return True
