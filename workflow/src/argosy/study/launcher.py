"""Keys of a launcher file: how a run's command is started, and the variables of its ranks."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field, model_validator

from argosy.runtime.contract.placeholders import FIELDS, is_field, names_in
from argosy.study.shell_words import unfilled
from argosy.study.values import Variable, Words
from argosy.validation import IF_SET, Model, Value


class Beside(Model):
    """Commands that run beside the program and end with it."""

    head: tuple[Words, ...] = ()
    """Commands started only on the head node."""
    each: tuple[Words, ...] = ()
    """Commands started on each node."""


class Launcher(Model):
    """How the processes of a run are started, and their variables."""

    variables: Annotated[dict[Variable, Value], Field(default_factory=dict)]
    """Variables of each process; values may contain fields such as {rank}."""
    per: Literal["rank", "node", "job"] = "rank"
    """Start the command once per rank, once per node, or once on the head node."""
    start: Annotated[Words | None, IF_SET] = None
    """Words put before the command to start it."""
    beside: Annotated[Beside | None, IF_SET] = None
    """Commands that run beside the program."""
    mpi_tasks: Annotated[bool, IF_SET] = False
    """Let the scheduler start one MPI task per rank, by the type in `mpi` of site.yaml."""

    @property
    def texts(self) -> Iterator[str]:
        """All texts that may contain fields."""
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
        """Refuse MPI tasks for a command that is not started once per rank."""
        if self.mpi_tasks and self.per != "rank":
            raise ValueError(f"mpi_tasks are of ranks: remove them, or `per: {self.per}`")
        return self
