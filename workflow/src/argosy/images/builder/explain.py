"""Explains why a step of an image has to run again, by comparing it with the last build."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from argosy.images.builder.history import History, RecordedChain, RecordedStep
from argosy.images.builder.recipe import Chain, Step

MOST_REASONS = 5
"""Of a step; with a folder of a thousand new files the rest is only counted."""

NEVER = "it has never been built"
NEW = "it was not in the last build"
ABOVE = "a step above it has to run again"
OTHERS_ABOVE = "the steps above it are not those of the last build"
UNFINISHED = "the last build did not finish it, or it has been pruned since"


@dataclass(frozen=True)
class Finding:
    """A step, and why it has to run; no reasons: it is cached.

    Args:
        image: in whose file the line stands, which may be another one than is built.
    """

    image: str
    line: int
    instruction: str
    reasons: tuple[str, ...]


def explain(
    final: Chain, last: History | None, is_cached: Callable[[str], bool]
) -> Iterator[Finding]:
    """Yield a finding for each step of the image, those of the stages that it takes files from first."""
    told: set[str] = set()
    for chain in reversed(final.with_used()):
        pairs = _paired(chain, _recorded(chain, final, last)) if last else None
        above = unknown = False
        for step in chain.steps:
            missing = not is_cached(step.key)
            if step.key not in told:
                # What a base sets is known when it has been fetched; until then all would look changed.
                reasons = [ABOVE] if unknown and pairs else _reasons(step, pairs, above)
                shown = tuple(reasons) if missing else ()
                image = step.context.source.context.name
                yield Finding(image, step.entry.line, step.entry.text, shown)
            told.add(step.key)
            above = above or missing
            unknown = unknown or (missing and step.base is not None)


Pairs = Mapping[str, RecordedStep]
"""The key of a step to the one of the last build that stood in its place."""


def _reasons(step: Step, pairs: Pairs | None, above: bool) -> Sequence[str]:
    if pairs is None:
        return [NEVER]
    before = pairs.get(step.key)
    if before is None:
        return [NEW]
    changes = compare(before.inputs, step.inputs)
    if above:
        changes = [*changes, ABOVE]
    if changes:
        return changes
    return [UNFINISHED if before.key == step.key else OTHERS_ABOVE]


def compare(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what differs between the inputs of two steps, in words."""
    changes = [f"{name} changed" for name in now if before.get(name, now[name]) != now[name]]
    changes += [f"{name} is new" for name in now if name not in before]
    changes += [f"{name} is gone" for name in before if name not in now]
    if len(changes) > MOST_REASONS:
        left = len(changes) - MOST_REASONS
        changes = [*changes[:MOST_REASONS], f"and {left} more"]
    return changes


def _recorded(chain: Chain, final: Chain, last: History) -> RecordedChain:
    """Return the last build's chain of the same name; stages without names are known by their numbers."""
    if chain is final:
        return last.chains[0]
    found = [recorded for recorded in last.chains[1:] if recorded.name == chain.name]
    return found[0] if found else RecordedChain(name=chain.name, steps=())


def _paired(chain: Chain, last: RecordedChain) -> Pairs:
    """Pairs of what stood in the same place; a step that was put in between has none."""
    before = [step.instruction for step in last.steps]
    now = [step.entry.text for step in chain.steps]
    pairs: dict[str, RecordedStep] = {}
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    for tag, begin, end, own_begin, own_end in matcher.get_opcodes():
        if tag in ("equal", "replace"):
            places = zip(last.steps[begin:end], chain.steps[own_begin:own_end], strict=False)
            pairs |= {step.key: old for old, step in places if _alike(old, step)}
    return pairs


def _alike(before: RecordedStep, step: Step) -> bool:
    """Return whether one may have been edited to become the other."""
    return before.inputs.get("instruction") == step.inputs.get("instruction")
