"""How often 95 % intervals of scaling laws cover the truth.

A thousand synthetic studies for each law; those with a parameter that truly is 0, where the interval is
one-sided, are counted apart. Then the same where repeats of a size share as much scatter as they have
apart.
"""

import itertools
import time

from rich.table import Table
from scaling_studies import coverage

from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, USL, Law

STUDIES = 1000
SEED = 1
LEAST, MOST = 0.93, 0.97
LEAST_SHARED = 0.9
BAR_MS = 50


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each parameter, the figures, and whether all bars hold."""
    table = Table("law", "parameter", "studies", "covered", "bar", "ms a study")
    figures: dict[str, object] = {}
    held = True
    for law, shared in itertools.product((AMDAHL, GUSTAFSON, USL), (0.0, 1.0)):
        covered, study_ms = _of_law(law, shared)
        held &= study_ms <= BAR_MS
        title = f"{law.name}, shared scatter" if shared else law.name
        least = LEAST_SHARED if shared else LEAST
        for name, hits in covered.items():
            share = sum(hits) / len(hits)
            most = 1.0 if name.endswith("= 0") else MOST
            held &= least <= share <= most
            bar = f"{least} to {most}"
            table.add_row(title, name, str(len(hits)), f"{share:.3f}", bar, f"{study_ms:.0f}")
            figures[f"{title} {name}"] = {"studies": len(hits), "covered": round(share, 4)}
        figures[f"{title} study_ms"] = round(study_ms, 1)
    return table, figures, held


def _of_law(law: Law, shared: float) -> tuple[dict[str, list[bool]], float]:
    """Coverage, and milliseconds of processor time a study."""
    began = time.process_time()
    covered = coverage(law, STUDIES, SEED, shared)
    return covered, 1e3 * (time.process_time() - began) / STUDIES
