"""`make bench-coverage`: how often 95 % intervals cover the truth of synthetic studies."""

import json
import sys

import coverage_choices
import coverage_continued
import coverage_curves
import coverage_days
import coverage_hosts
import coverage_laws
import coverage_networks
import coverage_pairs
import coverage_prediction
import coverage_rings
import coverage_runs
import coverage_stragglers
import coverage_survivors
import coverage_throttled
from rich.console import Console

PARTS = {
    "choices": coverage_choices.measured,
    "continued": coverage_continued.measured,
    "curves": coverage_curves.measured,
    "days": coverage_days.measured,
    "hosts": coverage_hosts.measured,
    "laws": coverage_laws.measured,
    "networks": coverage_networks.measured,
    "pairs": coverage_pairs.measured,
    "prediction": coverage_prediction.measured,
    "rings": coverage_rings.measured,
    "runs": coverage_runs.measured,
    "stragglers": coverage_stragglers.measured,
    "survivors": coverage_survivors.measured,
    "throttled": coverage_throttled.measured,
}


def main() -> int:
    """Count, print a table for each part and, last, the figures as JSON."""
    figures: dict[str, object] = {}
    held = True
    for name, measured in PARTS.items():
        table, figures[name], is_held = measured()
        Console(width=120).print(table)
        held &= is_held
    print(json.dumps(figures | {"held": held}))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
