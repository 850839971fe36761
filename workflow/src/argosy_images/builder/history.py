"""Record the inputs of each image's last build, and explain why a step has to run again.

<store>/history/<image>.json is written at the start of a build, since the build may fail, and at its end,
when the settings of a fetched base are known.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydantic import ValidationError

from argosy_common.files import write_text
from argosy_images.builder.recipe import Chain, Step
from argosy_images.oci import StrictModel
from argosy_images.store.store import Store


class RecordedStep(StrictModel):
    """An instruction with its key and its own inputs."""

    instruction: str
    key: str
    inputs: dict[str, str]


class RecordedChain(StrictModel):
    """The steps of a stage, from its base on."""

    name: str
    steps: tuple[RecordedStep, ...]


class History(StrictModel):
    """The chains of a build: the image's first, then the chains of stages that it copies from."""

    chains: tuple[RecordedChain, ...]


def record(store: Store, image: str, final: Chain) -> None:
    """Record the image's inputs, and touch its finished steps so that `prune` sees their use."""
    chains: dict[str, RecordedChain] = {}
    for chain in final.with_used():
        chains.setdefault(f"{chain.name} {chain.key}", _recorded(chain))
    write_text(store.history(image), History(chains=tuple(chains.values())).model_dump_json())
    for key in {step.key for chain in chains.values() for step in chain.steps}:
        with suppress(OSError):
            os.utime(store.layer(key) / "layer.json")


def read(store: Store, image: str) -> History | None:
    """Return the record of the last build, or None."""
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
"""Reasons shown for a step; further ones are counted."""

NEVER = "it has never been built"
NEW = "it was not in the last build"
ABOVE = "a step above it has to run again"
OTHERS_ABOVE = "the steps above it differ from those of the last build"
UNFINISHED = "the last build did not finish it, or it has been pruned since"


@dataclass(frozen=True)
class Finding:
    """A step and the reasons why it has to run; none if it is cached.

    Args:
        image: the image whose Containerfile has the line, for example a base of the built one.
    """

    image: str
    line: int
    instruction: str
    reasons: tuple[str, ...]


def explain(
    final: Chain, last: History | None, is_cached: Callable[[str], bool]
) -> Iterator[Finding]:
    """Yield a finding for each step, beginning with the stages that the image copies from."""
    told: set[str] = set()
    for chain in reversed(final.with_used()):
        pairs = _paired(chain, _recorded_chain(chain, final, last)) if last else None
        above = unknown = False
        for step in chain.steps:
            missing = not is_cached(step.key)
            if step.key not in told:
                # Until a base is fetched, its settings are unknown, and each step above would look changed.
                reasons = [ABOVE] if unknown and pairs else _reasons(step, pairs, above)
                shown = tuple(reasons) if missing else ()
                image = step.context.source.context.name
                yield Finding(image, step.entry.line, step.entry.text, shown)
            told.add(step.key)
            above = above or missing
            unknown = unknown or (missing and step.base is not None)


Pairs = Mapping[str, RecordedStep]
"""Keys of steps, each with the step of the last build in the same place."""


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
    """Describe the differences between the inputs of two steps."""
    changes = [f"{name} changed" for name in now if before.get(name, now[name]) != now[name]]
    changes += [f"{name} is new" for name in now if name not in before]
    changes += [f"{name} is gone" for name in before if name not in now]
    if len(changes) > MOST_REASONS:
        left = len(changes) - MOST_REASONS
        changes = [*changes[:MOST_REASONS], f"and {left} more"]
    return changes


def _recorded_chain(chain: Chain, final: Chain, last: History) -> RecordedChain:
    """Return the last build's chain of the same name or number, or an empty one."""
    if chain is final:
        return last.chains[0]
    found = [recorded for recorded in last.chains[1:] if recorded.name == chain.name]
    return found[0] if found else RecordedChain(name=chain.name, steps=())


def _paired(chain: Chain, last: RecordedChain) -> Pairs:
    """Pair steps with the last build's steps in the same places; inserted steps have none."""
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
    """Return whether both steps have the same instruction, so that one may be an edit of the other."""
    return before.inputs.get("instruction") == step.inputs.get("instruction")
