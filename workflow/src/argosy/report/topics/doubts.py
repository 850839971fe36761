"""Doubts about completed runs: values that are not finite, and very long steps."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from argosy.report.numbers import count, duration, number
from argosy.report.runs.study_tables import StudyTables
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary
from argosy.report.summary.parts import LongSteps, NotFinite
from argosy.results.rows import PRINTED_LOSS
from argosy.results.tables import Run

DIVERGED = 1e100
"""Metrics above it count as infinite: the training diverged."""

_NOT_FINITE = f"""
WITH odd AS (
    SELECT experiment, run_id, rank, name, at_s,
        coalesce(value_text, CAST(value_number AS VARCHAR)) AS value,
        count(DISTINCT rank) OVER (PARTITION BY experiment, run_id, name) AS ranks
    FROM metrics
    WHERE name = $printed OR NOT abs(value_number) < {DIVERGED}
        OR lower(value_text) IN ('nan', 'inf', '-inf', 'infinity', '-infinity')
), first_odd AS (
    SELECT * FROM odd
    QUALIFY row_number() OVER (PARTITION BY experiment, run_id, name ORDER BY at_s, rank) = 1
)
SELECT first_odd.*, name = $printed AS is_printed, max(steps.step) AS step
FROM first_odd LEFT JOIN steps ON steps.experiment = first_odd.experiment
    AND steps.run_id = first_odd.run_id AND steps.rank = first_odd.rank AND steps.start_s <= first_odd.at_s
GROUP BY ALL ORDER BY experiment, run_id, at_s, name
"""


def not_finite(tables: StudyTables) -> Mapping[Run, list[NotFinite]]:
    """Return values that are not finite by run, the earliest first."""
    found: defaultdict[Run, list[NotFinite]] = defaultdict(list)
    for row in tables.fetch(_NOT_FINITE, {"printed": PRINTED_LOSS}):
        found[row.pop("experiment"), row.pop("run_id")].append(NotFinite(**row))
    return found


MUCH = 0.05
"""Share of the slowest rank's steady time in long steps above which they are reported."""
FEW = 0.05
"""Share of long steps above which they count as part of the program."""

# As in measurements.py, throughput uses the slowest rank's seconds.
_LONG_STEPS = """
WITH slowest AS (
    SELECT * FROM steady_rank
    QUALIFY row_number() OVER (PARTITION BY experiment, run_id ORDER BY seconds DESC, rank) = 1
), without AS (
    SELECT experiment, run_id, sum(samples - long_samples) / max(seconds - long_s) AS rate
    FROM steady_rank GROUP BY ALL
)
SELECT experiment, run_id, rank, longest AS step, longest_s, usual_s, long_steps, rate
FROM slowest JOIN without USING (experiment, run_id) JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
    AND long_s > $much * slowest.seconds AND long_steps <= greatest(1, $few * steps)
ORDER BY experiment, run_id
"""


def long_steps(tables: StudyTables) -> Mapping[Run, LongSteps]:
    """Return the long steps by run, if a few of them took much of the time."""
    return {
        (row["experiment"], row["run_id"]): LongSteps(
            row["rank"],
            row["long_steps"],
            row["step"],
            row["longest_s"],
            row["longest_s"] / row["usual_s"],
            row["rate"],
        )
        for row in tables.fetch(_LONG_STEPS, {"much": MUCH, "few": FEW})
        if row["rate"]
    }


def remarks(run: RunSummary) -> list[str]:
    """Return sentences on the doubts about a run, those on values that are not finite first."""
    found = [_not_finite_sentence(one) for one in run.not_finite]
    return [*found, *filter(None, [_remark(run), _long_steps_sentence(run)])]


def _not_finite_sentence(one: NotFinite) -> str:
    what = f"a loss is not finite ({one.value})" if one.is_printed else f"{one.name} is {one.value}"
    since = [] if one.step is None else [f"from step {one.step} on"]
    since += [] if one.at_s is None else [f"{duration(max(0.0, one.at_s))} after the start"]
    others = f", and {one.ranks - 1} more of its ranks" if one.ranks > 1 else ""
    return f"{what[0].upper()}{what[1:]} on rank {one.rank}{others}, {', '.join(since)}.".replace(
        ", .", "."
    )


def _long_steps_sentence(run: RunSummary) -> str | None:
    """Return a sentence on a run's long steps and its throughput without them, if it has any."""
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
        f"{what}, for example because the job was suspended or a file system stalled. Without "
        f"{without} the throughput would be {number(found.samples_per_s)} samples per second; all "
        "numbers include this time."
    )


def _remark(run: RunSummary) -> str | None:
    """Return the doubts in the run's verdict as sentences, or None."""
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in run.remarks) or None


_MOST_NAMED = 4
_KINDS: tuple[Callable[[RunSummary], str | None], ...] = (
    lambda run: _not_finite_sentence(run.not_finite[0]) if run.not_finite else None,
    _remark,
    _long_steps_sentence,
)


def sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return sentences on the doubtful runs of an experiment by kind of doubt, up to a few of each."""
    runs = [run for run in summary.runs if run.counts_to == experiment.experiment]
    found = []
    for kind in _KINDS:
        said = [f"{run.run_id}: {sentence}" for run in runs if (sentence := kind(run))]
        if len(said) > _MOST_NAMED:
            more = len(said) - _MOST_NAMED
            said[_MOST_NAMED:] = [f"The same happened in {more} more runs; see their remarks."]
        found += said
    return found
