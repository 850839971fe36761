"""The keys of a launcher's file: how a run's command is started, and what its ranks are told."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field, model_validator

from argosy.runtime.contract.placeholders import FIELDS, is_field, names_in
from argosy.study.shell_words import unfilled
from argosy.study.values import Model, Variable, Words
from argosy.validation import Value


class Beside(Model):
    """Commands that run beside the program, and end with it."""

    head: tuple[Words, ...] = ()
    """Started on the head alone."""
    each: tuple[Words, ...] = ()
    """Started on each node."""


class Launcher(Model):
    """How the processes of a run are started, and what they are told."""

    variables: Annotated[dict[Variable, Value], Field(default_factory=dict)]
    """Variables of each process; values may name fields such as {rank}."""
    per: Literal["rank", "node", "job"] = "rank"
    """The command is started once a rank, once a node, or once on the head."""
    start: Annotated[Words | None, Field(exclude_if=lambda words: words is None)] = None
    """Words before the command, which start it."""
    beside: Annotated[Beside | None, Field(exclude_if=lambda beside: beside is None)] = None
    """Commands that run beside the program."""
    mpi_tasks: Annotated[bool, Field(exclude_if=lambda asked: not asked)] = False
    """The scheduler starts a task for each rank, of the type of MPI that `mpi` of site.yaml names: for the
    site's own MPI."""

    @property
    def texts(self) -> Iterator[str]:
        """All texts that may name fields."""
        yield from self.variables.values()
        yield from chain.from_iterable(self.commands)

    @property
    def commands(self) -> Iterator[Sequence[str]]:
        """The words before the command, and the commands beside it."""
        yield self.start or ()
        yield from (*self.beside.head, *self.beside.each) if self.beside else ()

    @model_validator(mode="after")
    def fields_are_known(self) -> "Launcher":
        """Refuse a field that the agent cannot fill in."""
        for name in names_in(self.texts):
            if not is_field(name):
                raise ValueError(
                    f"{{{name}}}: there is no such field; there are {', '.join(FIELDS)} and NAME_port, a "
                    "free port on the head"
                )
        return self

    @model_validator(mode="after")
    def nothing_is_for_a_shell(self) -> "Launcher":
        """Refuse what only a shell would fill in."""
        for words in (*self.commands, *((value,) for value in self.variables.values())):
            if found := unfilled(words, {}):
                raise ValueError(f"{found}: nothing fills this in: write a field, such as {{node}}")
        return self

    @model_validator(mode="after")
    def tasks_are_of_ranks(self) -> "Launcher":
        """Refuse tasks of MPI for what is not started once a rank."""
        if self.mpi_tasks and self.per != "rank":
            raise ValueError(f"mpi_tasks are of ranks: remove them, or `per: {self.per}`")
        return self
