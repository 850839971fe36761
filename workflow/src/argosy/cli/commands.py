"""Declares commands: sections of the help, usage lines, usage errors in one line."""

import difflib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from argosy_common.errors import ArgosyError, choices

STUDY = "A study"
IMAGES = "Images"
CLUSTERS = "Clusters"
SHARE = "Sharing and moving a study"
SET_UP = "Setting up"
PLUMBING = "Internal commands of the workflow"
BUILD, LOOK, EXCHANGE = "Build", "Look after", "Exchange"
SECTIONS = (BUILD, LOOK, EXCHANGE, STUDY, IMAGES, CLUSTERS, SHARE, SET_UP, PLUMBING)
"""Sections of the help, in this order."""
HELP_OPTIONS = ("-h", "--help")
USAGE_ERROR = 2


class OutputClosedError(Exception):
    """The reader closed the output. Not an OSError, for which typer would exit with 1."""


class Command(TyperCommand):
    """A command whose help names arguments as the usage line does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return `[OPTIONS] NAME [SITE]...`."""
        found: list[Any] = self.get_params(ctx)
        arguments = [each for each in found if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(_usage_of(each) for each in arguments if not each.hidden)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments: list[tuple[str, str]] = []
        options: list[tuple[str, str]] = []
        params: list[Any] = self.get_params(ctx)
        for each in params:
            if record := each.get_help_record(ctx):
                is_argument = each.param_type_name == "argument"
                (arguments if is_argument else options).append(
                    (_usage_of(each), each.help or "") if is_argument else record
                )
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _usage_of(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    if " " in name:
        return str(name)
    several = "..." if argument.nargs != 1 else ""
    return f"{name}{several}" if argument.required else f"[{name}{several}]"


class Group(TyperGroup):
    """A group of commands that lists them by section, and suggests only listed ones."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the command line; the help may be printed here."""
        try:
            return super().make_context(*arguments, **more)
        except BrokenPipeError:
            raise OutputClosedError from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise OutputClosedError from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help if no command is given."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help(), file=sys.stderr)
            raise typer.Exit(USAGE_ERROR)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command; raises ArgosyError with the known names."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        names = [each for each, command in self.commands.items() if not command.hidden]
        raise ArgosyError(f"{ctx.command_path}: there is no command {name}", choices(names, name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, Any]]] = {each: [] for each in SECTIONS}
        for name, command in self.commands.items():
            if not command.hidden:
                title = getattr(command, "rich_help_panel", None)
                title = title if isinstance(title, str) else "Commands"
                sections.setdefault(title, []).append((name, command))
        width = max(len(name) for rows in sections.values() for name, _ in rows)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), _summary(each)) for name, each in rows])


def _summary(command: Any) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


class Commands(typer.Typer):
    """A group of commands with Argosy's style of help."""

    def __init__(self, *, help: str | None = None, completes: bool = False) -> None:
        super().__init__(
            cls=Group,
            help=help,
            add_completion=completes,
            pretty_exceptions_enable=False,
            # No boxes: they break lines badly and spoil copying.
            rich_markup_mode=None,
            context_settings={"help_option_names": list(HELP_OPTIONS)},
        )

    def add(self, function: Callable[..., None], section: str, name: str | None = None) -> None:
        """Declare a command in a section of the help."""
        self.command(name, cls=Command, rich_help_panel=section)(function)


def _complete_site(incomplete: str) -> list[str]:
    from argosy.cli.site_names import complete_site

    return complete_site(incomplete)


SiteArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SITE",
        help="A site's name, or its folder in results/ or slurm/ (default: the only site, or "
        "config.yaml's).",
        autocompletion=_complete_site,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON (docs/commands.md).")]
ImageOption = Annotated[
    str | None,
    typer.Option(
        help="Image of the program (default: tensorflow-cpu or torch-cpu, by the program's imports, "
        "with the packages of requirements.txt)."
    ),
]
CostsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with prices and carbon (default: slurm/SITE/costs.yaml)."
    ),
]


def explain_usage(problem: TyperException) -> ArgosyError:
    """Return a usage error with a hint."""
    context: Any = getattr(problem, "ctx", None)
    if context is None:
        text = problem.format_message().rstrip(".")
        return ArgosyError(f"argosy: {text[:1].lower()}{text[1:]}", "see: argosy COMMAND --help")
    option = getattr(problem, "option_name", "")
    text = (problem.message if option else problem.format_message()).strip().rstrip(".")
    # Shorten pydantic's message about a value.
    text = re.sub(r"^Invalid value for '(.+?)': Input ", r"\1: ", text).partition(", unable to")[0]
    text = re.sub(r"^Missing (argument|option) '(.+)'$", r"\1 \2 is missing", text)
    names = [name for each in context.command.get_params(context) for name in each.opts]
    program = next((name for name in _metavars(context) if name.startswith("-- ")), "")
    close = difflib.get_close_matches(option, [name for name in names if name[:2] == "--"], n=2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"see: {context.command_path} --help"
    if option and program:
        hint = f"write -- before a program that has options: {context.command_path} {program}"
    text = text if text.startswith("-") else f"{text[:1].lower()}{text[1:]}"
    return ArgosyError(f"{context.command_path}: {text}", hint)


def _metavars(context: Any) -> list[str]:
    return [str(each.metavar) for each in context.command.get_params(context) if each.metavar]
