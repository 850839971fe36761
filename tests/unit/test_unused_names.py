"""The check of `make lint` that names what nothing uses."""

import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "workflow/src/package/shapes.py": """
        UNUSED = 1
        USED_HERE = 2
        USED_BY_A_RULE = 3

        def area(side):
            return side * USED_HERE

        def recursive(side):
            return recursive(side - 1)

        class Square:
            def side(self):
                return 1
    """,
    "workflow/src/package/main.py": """
        from package import shapes as forms
        from package.shapes import Square

        print(forms.area(Square().side()))
    """,
    "workflow/rules/common.smk": "from package.shapes import USED_BY_A_RULE",
    "tests/test_shapes.py": "from package.shapes import UNUSED",
}


@pytest.mark.slow
def test_what_only_tests_or_a_thing_itself_use_is_named(project: Path, tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "\n".join(line[8:] if line[:8].isspace() else line for line in text.splitlines())
        )
    script = project / "tests/unused_names.py"
    checked = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert [line.split(" (")[0] for line in checked.stdout.splitlines()] == [
        "unused: package/shapes.py: UNUSED",
        "unused: package/shapes.py: recursive",
    ]
    assert checked.returncode == 1, checked.stderr
