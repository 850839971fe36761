"""Steps that took many times the median, in words."""

from argosy.report.numbers import count, duration, number
from argosy.report.summary.models import RunSummary


def remark(run: RunSummary) -> str | None:
    """Return the sentence on a run's long steps and its throughput without them; None without any."""
    found = run.long_steps
    if found is None or run.left_out:
        return None
    times = f"{number(found.times)} times the median"
    if found.steps == 1:
        what = f"Step {found.step} of rank {found.rank} took {duration(found.seconds)}, {times}"
    else:
        what = (
            f"{count(found.steps, 'step')} of rank {found.rank} took many times the median, step "
            f"{found.step} the longest: {duration(found.seconds)}, {times}"
        )
    without = "it" if found.steps == 1 else "them"
    return (
        f"{what}, as when a job is suspended or a file system stalls. Without {without} the throughput is "
        f"{number(found.samples_per_s)} samples per second; the time counts all the same."
    )
