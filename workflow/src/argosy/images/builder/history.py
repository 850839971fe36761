"""What the last build of each image was made of, so that people can be told what changed since.

<store>/history/<image>.json is written when a build begins, as it may fail, and when it has ended, as
what a fetched base sets is not known before.
"""

import os
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError

from argosy.files import write_text
from argosy.images.builder.recipe import Chain
from argosy.images.store.store import Store


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
