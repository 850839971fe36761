"""Whether a rank's batch stays as large on more ranks or is divided among them, as steps say."""

from collections.abc import Mapping
from typing import Literal

from argosy.analysis.laws import Refused
from argosy.analysis.measurements import Point

Scaling = Literal["strong", "weak"]

# An epoch's last batch may be small, and a batch is divided into whole samples.
_ALIKE = 0.1
_WHOLE = 1.0


def scaling_of_batches(
    samples: Mapping[Point, float], base: Point, asked: Scaling
) -> Scaling | Refused:
    """`weak` where a rank's `samples` of a step are the same at every size, `strong` where divided.

    What was `asked` of the study decides nothing where steps of several numbers of ranks tell: a fixed
    number of samples that is divided among ranks may still come in batches of one size. Of one number of
    ranks a `weak` study is believed, since its batches are of one size; a `strong` one may be either.
    """
    of_base = samples[base]
    others = {point: one for point, one in samples.items() if one and point.ranks != base.ranks}
    if not others:
        return "weak" if asked == "weak" else _UNTOLD
    if all(abs(one / of_base - 1) < _ALIKE for one in others.values()):
        return "weak"
    divided = {point: of_base * base.ranks / point.ranks for point in others}
    if all(
        abs(one - divided[point]) <= max(_WHOLE, _ALIKE * divided[point])
        for point, one in others.items()
    ):
        return "strong"
    told = ", ".join(f"{samples[point]:.4g} on {point.ranks}" for point in sorted({base, *others}))
    return Refused(
        "A rank's samples of a step are neither the same on every number of ranks nor divided among them "
        f"({told}), so nobody knows what they would be on more."
    )


_UNTOLD = Refused(
    "Steps on one number of ranks do not tell whether a rank's batch stays as large on more or is "
    "divided; add 2 to scale.nodes and run it."
)
