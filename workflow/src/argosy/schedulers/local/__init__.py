"""The scheduler `local` runs scripts as processes of this machine, one after another."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from argosy.schedulers.base import Accepted, Reason, Say, Scheduler
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.local.scheduler import LocalScheduler
from argosy_common.errors import ArgosyError

NAME = "this machine"
HAS_QUEUE = False
SHARES_JOBS = False
TEMPLATES: Path | None = Path(__file__).with_name("templates")
LOG_WORDS: Path | None = None


def make_scheduler(poll_s: float) -> Scheduler:
    """Return the scheduler that runs scripts as processes; `poll_s` is unused without a queue."""
    return LocalScheduler()


def script_options(job: JobRequest) -> Mapping[str, str | None]:
    """Return no options, since bash reads none."""
    job.check_folder()
    if not job.site.interface:
        raise ArgosyError(
            "interface: unknown",
            "write the network interface over which the nodes reach each other; "
            "`ip -o addr` lists them with their addresses",
        )
    return {}


def directive(name: str, value: str | None) -> str:
    """Return an option as a comment."""
    return f"# {name}" if value is None else f"# {name}={value}"


def check_scripts(scripts: Iterable[Path], say: Say) -> list[Accepted]:
    """Accept all scripts unchecked."""
    return [Accepted(script) for script in scripts]


def list_jobs() -> None:
    """Return None: there is no queue."""


def make_surveyor() -> None:
    """Return None: this machine is no cluster."""


def explain(reason: str, *, alone: bool) -> Reason:
    """Return an empty explanation, since `local` has no reasons to explain."""
    return Reason("")
