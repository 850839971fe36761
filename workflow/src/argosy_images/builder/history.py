"""Records the inputs of each image's last build, and explains why a step has to run again.

<store>/history/<image>.json is written when a build begins, as it may fail, and when it has ended, as
what a fetched base sets is not known before.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydantic import BaseModel, ConfigDict, ValidationError

from argosy_common.files import write_text
from argosy_images.builder.recipe import Chain, Step
from argosy_images.store.store import Store


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordedStep(_Model):
    """An instruction, and all that its outcome depended on besides the steps above it."""

    instruction: str
    key: str
    inputs: dict[str, str]


class RecordedChain(_Model):
    """A stage with those below it."""

    name: str
    steps: tuple[RecordedStep, ...]


class History(_Model):
    """A build's chains: that of the image first, then those that it takes files from."""

    chains: tuple[RecordedChain, ...]


def record(store: Store, image: str, final: Chain) -> None:
    """Note what the image is made of, and that the finished steps of it are in use."""
    chains: dict[str, RecordedChain] = {}
    for chain in final.with_used():
        chains.setdefault(f"{chain.name} {chain.key}", _recorded(chain))
    write_text(store.history(image), History(chains=tuple(chains.values())).model_dump_json())
    for key in {step.key for chain in chains.values() for step in chain.steps}:
        with suppress(OSError):
            os.utime(store.layer(key) / "layer.json")


def read(store: Store, image: str) -> History | None:
    """Return what the last build was made of; None where there was none that is known."""
    try:
        return History.model_validate_json(store.history(image).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None


def _recorded(chain: Chain) -> RecordedChain:
    steps = (
        RecordedStep(instruction=step.entry.text, key=step.key, inputs=dict(step.inputs))
        for step in chain.steps
    )
    return RecordedChain(name=chain.name, steps=tuple(steps))


MOST_REASONS = 5
"""Reasons shown for a step; the rest, such as a thousand new files, is counted."""

NEVER = "it has never been built"
NEW = "it was not in the last build"
ABOVE = "a step above it has to run again"
OTHERS_ABOVE = "the steps above it differ from those of the last build"
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
        pairs = _paired(chain, _recorded_chain(chain, final, last)) if last else None
        above = unknown = False
        for step in chain.steps:
            missing = not is_cached(step.key)
            if step.key not in told:
                # A base's settings are known once it is fetched; until then every step would look changed.
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


def _recorded_chain(chain: Chain, final: Chain, last: History) -> RecordedChain:
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
