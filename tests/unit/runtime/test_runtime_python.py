"""Programs in users' containers run with an old Python."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from agent_job import PYTHON, RUNTIME

FILES = sorted([*RUNTIME.rglob("*.py"), *RUNTIME.parent.glob("schedulers/*/log_words.py")])
# Code that needs a later Python than 3.8, though with the same grammar.
LATER = ("removeprefix", "removesuffix", "waitstatus_to_exitcode", "zip(strict", "functools.cache")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RUNTIME.parent)))
def test_it_is_python_3_8_and_imports_only_the_standard_library(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        known = {*sys.stdlib_module_names, *NEIGHBOURS, *TRIED.get(path.name, ())}
        assert {name.split(".")[0] for name in names} <= known
    assert not [word for word in LATER if word in text]
    if str(path.relative_to(RUNTIME.parent)).removeprefix("runtime/") in OLDER:
        # Runs with the nodes' Python (test_node_look), which may lack this import.
        assert "from __future__ import annotations" not in text
    elif any(isinstance(node, ast.AnnAssign | ast.FunctionDef) for node in ast.walk(tree)):
        assert "from __future__ import annotations" in text


OLDER = {"node_look.py", "contract/files.py", "contract/layout.py", "started_by_path.py"}
"""Of Python 3.6: the look at a node, and what it imports."""
TRIED = {"trial.py": ("horovod", "tensorflow")}
"""What a program is for that the doctor starts in the user's image."""
# And torch, if the program has imported it.
NEIGHBOURS = (
    *("argosy_checkpoints", "argosy_contract", "argosy_exit", "argosy_records", "argosy_stacks"),
    *("argosy_steps", "started_by_path"),
    "torch",
)


def test_the_modules_do_not_see_the_rest_of_argosy() -> None:
    program = (
        "import sys, runpy; sys.argv = ['agent']\n"
        f"try: runpy.run_path({str(RUNTIME / 'agent')!r}, run_name='__main__')\n"
        "except SystemExit: print([m for m in sys.modules if 'argosy' in m.replace('argosy_runtime', '')])"
    )
    said = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, cwd="/")
    assert said.stdout.splitlines()[1:] == ["[]"], said
