"""How often intervals of alpha and beta cover the truth, where allreduces of a job share an effect."""

from itertools import product

from allreduce_times import coverage_of_jobs
from rich.table import Table

STUDIES = 1000
SEED = 8
JOB_SCATTERS = (0.0, 0.02, 0.05)
JOBS = (1, 2, 3, 5)
LEAST, MOST = 0.93, 0.97


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each scatter of jobs and number of them, the figures, and whether all bars hold."""
    table = Table("jobs scatter by", "jobs on each of 2, 4, 8 nodes", "alpha", "beta")
    figures: dict[str, object] = {}
    held = True
    for scatter, jobs in product(JOB_SCATTERS, JOBS):
        covered = coverage_of_jobs(scatter, jobs, STUDIES, SEED)
        held &= all(LEAST <= share <= MOST for share in covered.values())
        shares = [f"{share:.3f}" for share in covered.values()]
        table.add_row(f"{100 * scatter:g} %", str(jobs), *shares)
        figures[f"{scatter} {jobs}"] = {name: round(share, 4) for name, share in covered.items()}
    return table, figures, held
