"""Name what `workflow/src` defines and nothing in the workflow uses; exit with 1 if there is any.

Tests and benchmarks do not count as users. Names of modules are followed along imports. Members of
classes are told apart by their names alone, so an unused one that shares its name with a member in use
is not found.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

SOURCE = Path("workflow/src")
OTHER_USERS = ("Snakefile", "workflow/rules/*.smk", "workflow/src/**/*.j2")
"""Files that are not Python: every word in them is a use."""
DECORATED = re.compile(r"\.(command|callback)\b|\b\w+_(validator|serializer)\b|\boverload\b")
"""Decorators of typer, pydantic and typing, by which a function is used."""
READ_BY_OTHERS = {
    "argosy/runtime/python/": "researchers' programs import these modules",
    "argosy/report/summary/models.py": "fields of summary.json; the Makefile writes its schema",
    "argosy/runtime/agent/status.py: RankStatus.local_rank": "a field of status.json",
    "argosy/cli/commands.py: Command.": "called by typer",
    "argosy/cli/commands.py: Group.": "called by typer",
    "argosy/notebook.py: read_results": "researchers' notebooks call it",
    "argosy/shipped/files.py: snakefile": "the Snakefile of a project includes it",
    "argosy/terminal.py: _Console.on_broken_pipe": "called by rich",
    "argosy_images/interchange/members.py: Member._proc_": "called by tarfile",
    "argosy_images/interchange/streams.py: Hashing.readinto": "called by io.BufferedReader",
    "argosy_images/interchange/streams.py: Hashing.readable": "called by io",
    "argosy/jobs/driver.py: ToldErrors.emit": "called by logging",
    "argosy/schedulers/local/__init__.py": "what BatchSystem asks for; the package is found by its name",
    "argosy/schedulers/slurm/__init__.py": "the same",
    "argosy/schedulers/slurm/log_words.py": "what LogWords asks for; nodes load it by its path",
    "snakemake_executor_plugin_argosy/__init__.py": "Snakemake's interface of executors",
}
"""Beginnings of what has users that are not in the workflow, and who they are."""

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Module:
    """A file; `aliases` are the names under which it knows modules, with the modules' last names."""

    path: Path
    tree: ast.Module
    aliases: dict[str, str]

    @property
    def name(self) -> str:
        """The last part of the name under which it is imported."""
        return self.path.parent.name if self.path.stem == "__init__" else self.path.stem


def read(path: Path) -> Module:
    """Return a file with the names that it imports."""
    tree = ast.parse(path.read_text())
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    names = chain.from_iterable(node.names for node in imports)
    return Module(path, tree, {a.asname or a.name: a.name.rpartition(".")[2] for a in names})


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, Definition]]:
    """Give the names that statements define and that have no users by a rule, with their statements."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not any(DECORATED.search(ast.unparse(each)) for each in node.decorator_list):
                yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in ast.walk(ast.Tuple([*targets(node)])):
                if isinstance(name, ast.Name):
                    yield name.id, node
        elif isinstance(node, ast.If | ast.Try):
            yield from definitions([*node.body, *node.orelse])


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """Return what an assignment gives a value to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def names_read(tree: ast.AST, but: ast.AST) -> Iterator[str]:
    """Give the names that are read in a tree outside one of its parts."""
    for node in ast.iter_child_nodes(tree):
        if node is not but:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id
            yield from names_read(node, but)


def members_read(modules: list[Module]) -> set[str]:
    """Return the names of all attributes that are read."""
    nodes = chain.from_iterable(ast.walk(module.tree) for module in modules)
    return {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}


def taken_from_modules(modules: list[Module]) -> set[tuple[str, str]]:
    """Return what modules take from another: its last name, and the name in it."""
    found = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                last = (node.module or "").rpartition(".")[2]
                found |= {(last or module.path.parent.name, alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute):
                known = module.aliases.get(ast.unparse(node.value))
                found |= {(known, node.attr)} if known else set()
    return found


def models(modules: list[Module]) -> set[str]:
    """Return the names of pydantic's models, whose fields are keys of files."""
    classes = [n for m in modules for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]
    found, before = {"BaseModel"}, 0
    while len(found) > before:
        before = len(found)
        found |= {c.name for c in classes if found & {ast.unparse(base) for base in c.bases}}
    return found


def unused(modules: list[Module], words: set[str]) -> Iterator[str]:
    """Give the file, line and name of each definition without a user."""
    taken, members, of_files = taken_from_modules(modules), members_read(modules), models(modules)
    for module in modules:
        file = module.path.relative_to(SOURCE)
        for name, node in definitions(module.tree.body):
            used = name in words or (module.name, name) in taken
            if not used and name not in names_read(module.tree, node):
                yield f"{file}: {name} (line {node.lineno})"
        for each in ast.walk(module.tree):
            if isinstance(each, ast.ClassDef):
                for name, node in definitions(each.body):
                    is_key = each.name in of_files and not isinstance(node, ast.FunctionDef)
                    used = name in words | members or name in names_read(each, node)
                    if not used and not is_key:
                        yield f"{file}: {each.name}.{name} (line {node.lineno})"


def main() -> int:
    """Print what is unused."""
    others = chain.from_iterable(Path().glob(pattern) for pattern in OTHER_USERS)
    words = {word for path in others for word in re.findall(r"\w+", path.read_text())}
    found = [
        line
        for line in unused([read(path) for path in sorted(SOURCE.rglob("*.py"))], words)
        if not line.startswith(tuple(READ_BY_OTHERS)) and not re.search(r"\b_\w+_ |__ ", line)
    ]
    for line in found:
        print(f"unused: {line}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
