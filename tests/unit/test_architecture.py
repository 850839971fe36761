"""The arrows between rooms are those that docs/architecture.md shows."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import argosy_images

PREFIX = "argosy"
BESIDE = ("argosy_common", "argosy_images")
"""Packages beside it that are rooms as well."""
SHARED = {"argosy_common", "terminal", "validation", "yaml_file", "__version__"}


def table(project: Path) -> dict[str, set[str]]:
    """Room to what it may import, as the page says."""
    rows = re.findall(
        r"^\| `(\w+)/` (?:\(beside it\) )?\|.*\|([^|]*)\|$", page(project), flags=re.MULTILINE
    )
    return {
        room: set(re.findall(r"\w+", allowed)) & {name for name, _ in rows}
        for room, allowed in rows
    }


def page(project: Path) -> str:
    return (project / "docs/architecture.md").read_text()


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith(f"{PREFIX}.")}
        found |= {name.split(".")[0] for name in names} & {*BESIDE}
    return found


@pytest.mark.parametrize(
    "room",
    [
        "study",
        "site",
        "argosy_images",
        "run_folder",
        "schedulers",
        "probe",
        "doctor",
        "jobs",
        "monitor",
        "runtime",
        "results",
        "report",
        "bundle",
        "cli",
    ],
)
def test_no_arrow_but_those_in_the_table(project: Path, room: str) -> None:
    allowed = table(project)[room] | SHARED | {room}
    paths = [*folder_of(project, room).rglob("*.py")]
    assert paths
    for path in paths:
        assert imported_rooms(path) <= allowed, path


@pytest.mark.parametrize("package", BESIDE)
def test_packages_beside_argosy_import_nothing_of_it(project: Path, package: str) -> None:
    known = modules(project)
    imported = {
        base.split(".")[0]
        for name, path in known.items()
        if name.split(".")[0] == package
        for base, _, _ in imports(name, path)
    }
    assert package in imported
    assert imported & {*(name.split(".")[0] for name in known)} <= {package, "argosy_common"}


def folder_of(project: Path, room: str) -> Path:
    """Return the folder of a room."""
    source = project / "workflow/src"
    return source / room if room in BESIDE else source / "argosy" / room


def test_what_runs_in_containers_is_used_outside_only_to_know_the_same(
    project: Path,
) -> None:
    files = (project / "workflow/src").rglob("*.py")
    imported = {
        node.module
        for path in files
        if "runtime" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert {each for each in imported if each.startswith("argosy.runtime")} == {
        "argosy.runtime.contract",
        "argosy.runtime.contract.layout",
        "argosy.runtime.contract.placeholders",
        "argosy.runtime.contract.run",
        "argosy.runtime.contract.steps",
        "argosy.runtime.contract.throughput",
        "argosy.runtime.program_files",
    }


OF_SLURM = re.compile(r"\bSlurm\b|SLURM_|SBATCH|scancel|squeue|scontrol|sinfo|\bsrun\b")
SPEAKS_OF_SLURM = {
    "site/models.py": "the options of a site's file are named as Slurm names them",
    "site/values.py": "the same",
    "jobs/planning.py": "says what a launcher needs",
    "study/values.py": "what a name may hold",
    "schedulers/local/time_limit.py": "does as Slurm does",
    "study/command_launchers.py": "names launchers",
    "study/shell_words.py": "names its variables, which ranks do not have",
    "runtime/start-node.sh": "the same",
    "runtime/native-node.sh": "hides their variables",
}


def test_slurm_is_known_in_its_own_folder_alone(project: Path) -> None:
    source = project / "workflow/src/argosy"
    files = [*source.rglob("*.py"), *source.rglob("*.sh"), *source.rglob("*.j2")]
    found = {str(path.relative_to(source)) for path in files if OF_SLURM.search(path.read_text())}
    assert {path for path in found if not path.startswith("schedulers/slurm/")} == set(
        SPEAKS_OF_SLURM
    )


def test_the_table_names_every_room(project: Path) -> None:
    folders = (project / "workflow/src/argosy").iterdir()
    rooms = {path.name for path in folders if path.is_dir() and path.name != "__pycache__"}
    assert set(table(project)) == rooms | {*BESIDE}


BY_PATH = {
    *(
        "write_text",
        "write_bytes",
        "mkdir",
        "touch",
        "chmod",
        "symlink_to",
        "hardlink_to",
        "unlink",
    ),
    *("rename", "replace", "is_dir", "exists", "glob", "rglob", "walk", "read_text", "read_bytes"),
}
"""Calls that follow links, or whose folders may be links."""


def test_copy_and_add_reach_files_of_images_by_rooted_alone(project: Path) -> None:
    text = (project / "workflow/src/argosy_images/builder/copying.py").read_text()
    nodes = [*ast.walk(ast.parse(text))]
    assert not {node.attr for node in nodes if isinstance(node, ast.Attribute)} & BY_PATH
    imported = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    assert not imported & {"os", "shutil", "subprocess", "tempfile"}


READS = {
    "open",
    "read_text",
    "read_bytes",
    "iterdir",
    "glob",
    "rglob",
    "scandir",
    "walk",
    "listdir",
}
TRUSTED = {
    "jobs/driver.py": "the driver's own note",
    "schedulers/script_template.py": "templates of the project",
    "schedulers/local/scheduler.py": "writes the job's log",
    "schedulers/slurm/given.py": "the script of the job in which it runs",
    "schedulers/missing_images.py": "locks of the project's images",
    "schedulers/batch_system.py": "Argosy's own folders",
    "results/own_tables.py": "the user's own key",
    "jobs/launchers.py": "names of launchers",
    "jobs/data.py": "whether a folder of the user's own is empty",
    "jobs/program_check.py": "names of the user's own programs",
    "jobs/study_file.py": "what the driver itself has just written",
    "report/page/html.py": "what Argosy brings itself",
    "report/page/chart_scripts.py": "what Argosy brings itself",
    "results/long_lines.py": "writes copies into a folder of its own",
}
"""Files that open others than those a program or a stranger left, and what."""


@pytest.mark.parametrize("room", ["results", "monitor", "schedulers", "jobs", "report"])
def test_what_programs_left_is_read_by_the_one_reader(project: Path, room: str) -> None:
    source = project / "workflow/src/argosy"
    found = {
        f"{path.relative_to(source)}"
        for path in (source / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and called(node) in READS
    }
    assert found <= set(TRUSTED)


def test_the_driver_and_the_commands_read_by_it_too(project: Path) -> None:
    source = project / "workflow/src"
    executor = (source / "snakemake_executor_plugin_argosy").glob("*.py")
    for path in [*executor, source / "argosy/cli/results.py", source / "argosy/cli/runs.py"]:
        calls = (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        )
        assert not {called(node) for node in calls} & READS, path


def called(node: ast.Call) -> str:
    """The name of what is called, without what it is of; "" for the reader's own, and for /dev/null."""
    if node.args and ast.unparse(node.args[0]) == "os.devnull":
        return ""
    if isinstance(node.func, ast.Attribute):
        return "" if ast.unparse(node.func.value) == "reading" else node.func.attr
    return "open" if ast.unparse(node.func) == "open" else ""


RUNS_PATH = "argosy/runtime/python"


def modules(project: Path) -> dict[str, Path]:
    """Return the file of each module of the project by the name under which it is imported."""
    source = project / "workflow/src"
    found = {}
    for path in source.rglob("*.py"):
        # Runs have this folder in PYTHONPATH.
        top = RUNS_PATH if path.parent.match(RUNS_PATH) else ""
        parts = path.relative_to(source / top).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(name: str, path: Path) -> list[tuple[str, str, str]]:
    """Return what a module imports anywhere in its file: module, name in it or "", and name here."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "", alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*above, node.module or ""]).rstrip(".") if node.level else node.module
            found += [(base or "", alias.name, alias.asname or alias.name) for alias in node.names]
    return found


def imported_modules(name: str, known: dict[str, Path]) -> set[str]:
    """Return the project's modules that a module imports."""
    named = {
        f"{base}.{member}" if f"{base}.{member}" in known else base
        for base, member, _ in imports(name, known[name])
    }
    return (named & {*known}) - {name}


def first_circle(arrows: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, the first one once more at the end."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


def test_modules_import_each_other_in_no_circle(project: Path) -> None:
    known = modules(project)
    arrows = {name: imported_modules(name, known) for name in known}
    assert sum(map(len, arrows.values())) > len(known)
    assert not first_circle(arrows)
    assert first_circle({**arrows, "argosy_common.errors": {"argosy.cli"}})


def test_no_module_uses_private_names_of_another(project: Path) -> None:
    known = modules(project)
    top = {name.split(".")[0] for name in known}
    found = [
        f"{name}: {base}.{member}"
        for name, path in known.items()
        for base, member, _ in imports(name, path)
        if base.split(".")[0] in top and any(map(is_private, [*base.split("."), member]))
    ]
    assert not found


def test_the_rest_uses_images_by_its_interface_alone(project: Path) -> None:
    interface = {name for names in argosy_images.MODULES.values() for name in names.split()}
    assert len(interface) <= 24
    assert all(hasattr(argosy_images, name) for name in interface)
    known = modules(project)
    package = "argosy_images"
    typed = {member for base, member, _ in imports(package, known[package]) if package in base}
    assert typed == interface
    others = {name: path for name, path in known.items() if not name.startswith(package)}
    used = [
        f"{base} {member}"
        for name, path in others.items()
        for base, member, _ in imports(name, path)
    ]
    for path in (project / "workflow/rules").glob("*.smk"):
        lines = re.findall(r"^from (\S+) import (.+)$", path.read_text(), flags=re.MULTILINE)
        used += [f"{base} {member}" for base, names in lines for member in names.split(", ")]
    of_images = {each for each in used if each.startswith(package)}
    assert len(of_images) > 20
    assert of_images <= {f"{package} {name}" for name in interface}


def test_no_module_reaches_private_names_by_attributes(project: Path) -> None:
    known = modules(project)
    found = []
    for name, path in known.items():
        named = names_of_modules(name, path, known)
        found += [
            f"{name}: {ast.unparse(node)}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and is_private(node.attr)
            if ast.unparse(node.value) in named
        ]
    assert not found


def names_of_modules(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Return the names by which a module knows other modules of the project."""
    return {
        here
        for base, member, here in imports(name, path)
        if f"{base}.{member}".rstrip(".") in known
    }


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def test_the_table_of_changes_leads_to_files_that_exist(project: Path) -> None:
    section = page(project).partition("## Where to change what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!to change|---)(.+) \| (.+) \|$", section, flags=re.MULTILINE)
    assert len(rows) >= 12
    for change, places in rows:
        for place in re.findall(r"`([^`]+)`", places):
            source = project / "workflow/src"
            below = (source / "argosy" / place, source / place, project / place)
            assert any(path.exists() for path in below), f"{change}: {place}"


def test_the_page_is_an_introduction(project: Path) -> None:
    """Two pages: reasons belong to the README.md of their folder."""
    assert len(page(project).splitlines()) <= 130
    for room in table(project):
        folder = folder_of(project, room)
        assert (folder / "README.md").is_file() or (folder / "__init__.py").is_file()


def test_what_a_readme_or_the_security_page_names_exists(project: Path) -> None:
    """Files in backticks, as seen from the page's own folder, the packages' or the root."""
    source = project / "workflow/src/argosy"
    pages = [
        *source.glob("*/README.md"),
        *source.parent.glob("argosy_*/README.md"),
        project / "workflow/rules/README.md",
        project / "SECURITY.md",
    ]
    for path in pages:
        for name in re.findall(r"`([\w./-]+\.(?:py|j2|js|sh))`", path.read_text()):
            folders = (path.parent, source, source.parent, project, source / "runtime")
            assert any((folder / name).exists() for folder in folders), f"{path.name}: {name}"


def test_every_package_says_what_it_is_for(project: Path) -> None:
    source = project / "workflow/src/argosy"
    packages = {path.parent for path in source.glob("*/__init__.py")}
    packages |= {folder_of(project, room) for room in BESIDE}
    assert packages
    assert [path.name for path in packages if not (path / "README.md").is_file()] == []
