"""Finds the files that a Python program's imports load, by Python's rules, without running it.

Python searches the program's folder first, then folders of PYTHONPATH and folders that the program adds.
An installed package takes precedence over a folder without `__init__.py`, so only named modules of such
a folder count.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from itertools import islice
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

EVERY = "*every*"
"""In place of a name: all modules of a package, since the program computes their names."""
MOST_ENTRIES = 1000
"""Most entries of a folder that is listed; a larger one contains data."""

# Modules that Python has loaded before a program starts, or has built in.
_LOADED = {*sys.builtin_module_names, "abc", "codecs", "encodings", "io", "os", "site", "stat"}
_STATEMENT = re.compile(
    r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n;#]+))", re.MULTILINE
)


class Import(NamedTuple):
    """`from <level dots><module> import <names>`, or without names `import <module>`."""

    module: str
    level: int = 0
    names: Tuple[str, ...] = ()


class Source(NamedTuple):
    """References of a Python file to other files."""

    imports: Sequence[Import]
    texts: Sequence[str]
    """Its strings, except docstrings."""
    added: Sequence[str]
    """Folders that it adds to sys.path."""


def read_source(text: str, path: str, guess: bool = True) -> Source:
    """Parse the references of a Python file.

    Args:
        text: its content.
        path: its path.
        guess: whether to search unparsable text, such as newer Python, for import statements.
    """
    tree = _tree_of(text)
    if tree is None:
        if not guess:
            return Source([], [], [])
        found = [each for match in _STATEMENT.findall(text) for each in _parsed(match)]
        return Source(found, [text], [])
    imports: List[Import] = []
    texts: List[str] = []
    added: List[str] = []
    for node in _executed(tree):
        imports += _imports_of(node, path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
        if _adds_to_path(node):
            added += _folders_in(node, path)
    return Source(imports, texts, added)


def loaded_files(imported: Import, path: str, roots: Sequence[str]) -> List[str]:
    """Return the files that an import loads, in Python's order.

    Args:
        imported: the import.
        path: the file with the import.
        roots: the user's folders in Python's path, in order.
    """
    if imported.level:
        folder = path
        for _ in range(imported.level):
            folder = os.path.dirname(folder)
        roots = [folder] if any(folder.startswith(f"{root}/") for root in roots) else []
    elif imported.module.partition(".")[0] in _LOADED:
        return []
    files, folders = load_module(imported.module, roots)
    for name in _names_of(imported, files, folders or []):
        found = _find(name, folders or [])
        if found and found[0]:
            files.append(found[0])
    return files


def load_module(module: str, roots: Sequence[str]) -> Tuple[List[str], Optional[Sequence[str]]]:
    """Return the files that a module's import loads, and the folders of its submodules.

    If the module is not in `roots`, the folders are None and the files belong to its parent packages.
    """
    files: List[str] = []
    folders = roots
    for part in filter(None, module.split(".")):
        found = _find(part, folders)
        if found is None:
            return files, None
        file, folders = found
        if file:
            files.append(file)
    return files, folders


def _find(name: str, folders: Sequence[str]) -> Optional[Tuple[Optional[str], List[str]]]:
    """Return the file that a module's import loads, and the folders of its submodules; None if not found.

    A namespace package has no file, and may have several folders.
    """
    portions = []
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(os.path.join(path, "__init__.py")):
            return os.path.join(path, "__init__.py"), [path]
        if os.path.isfile(path + ".py"):
            return path + ".py", []
        if os.path.isdir(path):
            portions.append(path)
    return (None, portions) if portions else None


def _names_of(imported: Import, files: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """Yield the imported names that may be modules in `folders`."""
    for name in imported.names:
        if name == EVERY:
            yield from (each for folder in folders for each in _modules_in(folder))
        elif name == "*" and files:
            yield from _all_of(files[-1])
        else:
            yield name


def _modules_in(folder: str) -> List[str]:
    names = []
    for entry in entries_of(folder):
        if entry.name.endswith(".py") and entry.name.isprintable():
            names.append(entry.name[: -len(".py")])
        elif os.path.isfile(os.path.join(entry.path, "__init__.py")):
            names.append(entry.name)
    return sorted(names)


def entries_of(folder: str) -> List[os.DirEntry[str]]:
    """Return a folder's entries; none if it is unreadable or has more than `MOST_ENTRIES`."""
    try:
        with os.scandir(folder) as entries:
            found = [*islice(entries, MOST_ENTRIES + 1)]
    except OSError:
        return []
    return found if len(found) <= MOST_ENTRIES else []


def _all_of(file: str) -> List[str]:
    """Return the names in a package's `__all__`."""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            tree = _tree_of(stream.read())
    except OSError:
        return []
    for node in tree.body if tree else ():
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__":
            return _strings(node.value)
    return []


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except docstrings and code for type checkers."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        waiting += [] if is_text else ast.iter_child_nodes(node)


def _parsed(statement: str) -> List[Import]:
    tree = _tree_of(statement.strip())
    nodes = ast.walk(tree) if tree else ()
    return [each for node in nodes for each in _imports_of(node, "")]


def _tree_of(text: str) -> Optional[ast.Module]:
    """Return a program's syntax tree; None if this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            # Python shows these warnings when it runs the program.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports_of(node: ast.AST, path: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield Import(node.module or "", node.level, tuple(alias.name for alias in node.names))
    elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__"):
        yield from _by_call(node, path)


def _by_call(call: ast.Call, path: str) -> Iterator[Import]:
    """Yield the imports of a call: one module, or all modules whose names may begin so."""
    if not call.args:
        return
    first = call.args[0]
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        level = len(first.value) - len(first.value.lstrip("."))
        yield Import(first.value[level:], level)
        return
    begin = next((text for text in _strings(first) if "." in text), "")
    level = len(begin) - len(begin.lstrip("."))
    package = begin[level:].rpartition(".")[0]
    if package or level:
        yield Import(package, level, (EVERY,))
    elif os.path.isfile(os.path.join(os.path.dirname(path), "__init__.py")):
        yield Import("", 1, (EVERY,))


def _adds_to_path(node: ast.AST) -> bool:
    """Return whether a node changes sys.path."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and _is_sys_path(node.func.value)
    if isinstance(node, ast.Assign):
        return _is_sys_path(node.targets[0])
    return isinstance(node, ast.AugAssign) and _is_sys_path(node.target)


def _is_sys_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "path" and _name(node.value) == "sys"


def _folders_in(node: ast.AST, path: str) -> Iterator[str]:
    """Yield the folders of an expression relative to its file: `dirname`, `parent`, strings."""
    ups = [_name(each) for each in ast.walk(node)]
    count = sum(name in ("dirname", "parent") for name in ups)
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript) and _name(each.value) == "parents":
            count += 1 + sum(
                part.value
                for part in ast.walk(each.slice)
                if isinstance(part, ast.Constant) and isinstance(part.value, int)
            )
    folder = path
    for _ in range(max(1, count)):
        folder = os.path.dirname(folder)
    yield folder
    for text in _strings(node):
        folder = os.path.normpath(os.path.join(folder, text))
        yield folder


def _strings(node: ast.AST) -> List[str]:
    """Return the strings in an expression, in order."""
    found = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    return [str(each.value) for each in found]


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
