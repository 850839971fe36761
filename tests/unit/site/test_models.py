"""site.yaml: each error is one line that names the key."""

from pathlib import Path
from typing import get_args

import pytest
import yaml
from sites import content

from argosy.site.models import Images, Site, read_site
from argosy_common.errors import ArgosyError
from argosy_images.engines.models import ENGINES

X86 = "architecture: x86_64"
TO_BE_COPIED = "mycluster"


def read(folder: Path, changes: str) -> Site:
    (folder / "site.yaml").write_text(yaml.safe_dump(content(changes), sort_keys=False))
    return read_site(folder)


def problem_of(folder: Path, changes: str) -> str:
    with pytest.raises(ArgosyError) as problem:
        read(folder, changes)
    text = str(problem.value)
    assert text.startswith(f"{folder}/site.yaml: ")
    assert "\n" not in text
    return text.removeprefix(f"{folder}/site.yaml: ")


def test_the_sites_of_this_project_are_valid(project: Path) -> None:
    folders = [path.parent for path in (project / "slurm").glob("*/site.yaml")]
    assert "local" in [folder.name for folder in folders]
    for folder in folders:
        if folder.name != TO_BE_COPIED:
            read_site(folder)


def test_a_copied_site_says_at_once_what_is_to_be_filled_in(project: Path, tmp_path: Path) -> None:
    original = (project / "slurm" / TO_BE_COPIED / "site.yaml").read_text()
    copied = tmp_path / "site.yaml"
    copied.write_text(original)
    with pytest.raises(ArgosyError) as problem:
        read_site(tmp_path)
    keys = "interface, account, hardware.cpu.architecture, queues.cpu.options.partition"
    assert str(problem.value).startswith(f"{copied}: fill in {keys}: ")
    assert "docs/porting.md" in str(problem.value)

    copied.write_text(original.replace('architecture: "?"', X86).replace('"?"', "eth0"))
    site = read_site(tmp_path)
    assert site.queues["cpu"].options == {"partition": "eth0"}
    # It contains no values of a real cluster.
    assert (site.hardware["cpu"].cores, site.hardware["cpu"].memory) == (None, None)
    assert site.queues["cpu"].limits == ()


def test_the_profile_of_a_site_chooses_it(project: Path) -> None:
    for path in (project / "slurm").glob("*/config.yaml"):
        assert yaml.safe_load(path.read_text())["config"] == [f"site={path.parent.name}"]


def test_what_is_known_of_a_real_site_has_a_source(project: Path) -> None:
    for path in (project / "slurm").glob("*/site.yaml"):
        if path.parent.name not in ("local", "testbed", TO_BE_COPIED):
            site = read_site(path.parent)
            assert site.sources
            assert site.tried is not None or "Not yet tried there" in " ".join(
                path.read_text().replace("\n#", "").split()
            )


def test_a_missing_site_names_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/site.yaml").write_text("scheduler: local\ninterface: lo\n")
    with pytest.raises(ArgosyError, match=r"nowhere/site.yaml: .*; there are here$"):
        read_site(tmp_path / "nowhere")
    (tmp_path / "here/site.yaml").rename(tmp_path / "here/site.yml")
    with pytest.raises(ArgosyError, match=r"no such file; rename site\.yml to site\.yaml$"):
        read_site(tmp_path / "here")


def test_what_is_no_yaml_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("a: [\n")
    with pytest.raises(ArgosyError, match=r"site.yaml: is not YAML: [^\n]*$"):
        read_site(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("queue: x", "queue: no such key; did you mean queues?"),
        ("scheduler: ../x", "scheduler: a name may contain letters, digits, '.', '_' and '-'"),
        ("hardware: {}", "a cluster needs at least one entry in hardware and in queues"),
        (f"hardware: {{cpu: {{{X86}, core: 4}}}}", "hardware.cpu.core: no such key; did you mean cores?"),
        ("hardware: {cpu: {cores: 4}}", "hardware.cpu.architecture: this key is missing"),
        (f"hardware: {{a b: {{{X86}}}}}", "hardware.a b: a name may contain letters"),
        (f"hardware: {{cpu: {{{X86}, memory: 4 GB}}}}", "hardware.cpu.memory: write a size as 512M,"),
        (f"hardware: {{cpu: {{{X86}}}}}", "queues.short.hardware: gpu is not in hardware; there are cpu"),
        ("queues: {a: {hardware: []}}", "queues.a.hardware: "),
        ("queues: {a: {hardware: [cpu], limits: [{nodes: 4}, {nodes: 2}]}}", "queues.a.limits: sort the"),
        ("queues: {a: {hardware: [cpu], limits: [{time: 1h}, {nodes: 2}]}}", "queues.a.limits: sort the"),
        ("queues: {a: {hardware: [cpu], limits: [{time: 1 day}]}}", "queues.a.limits.0.time: write a"),
        ("options: {--mem: 1}", "options.--mem: write the long name of an option of sbatch"),
        ("options: {N: 1}", "options.N: write the long name"),
        ("options: {account: me}", "options.account: a site cannot set it: write it as `account`"),
        ("options: {output: x}", "options.output: a site cannot set it"),
        ("options: {requeue: false}", "options.requeue: write null to remove the line"),
        ("options: {mem: 1.5}", "options.mem: write text, a whole number, null, or true"),
        ("options: {mem: ''}", "options.mem: write text"),
        ("options: {comment: \"a\\nb\"}", "options.comment: contains characters"),
        ("options: {gres: 'gpu:{gpu}'}", "options.gres: has the unknown field {gpu}; there are {nodes}, "),
        ("options: {gres: 'gpu:{}'}", "options.gres: has the unknown field {}; there are "),
        ("options: {gres: 'gpu:{gpus!r:>9}'}", "options.gres: write {gpus} with nothing else"),
        ("options: {gres: 'gpu:{'}", "options.gres: "),
        ("srun: [-l]", "srun.0: write an option with two dashes"),
        ("tmpdir: tmp", "tmpdir: write an absolute folder"),
        ("tmpdir: /tmp/$(date)", "tmpdir: write an absolute folder"),
        ("images: {stage: disk}", "images.stage: input should be 'shared', 'node' or 'memory'"),
        ("images: {store: node}", "images.store: no such key; did you mean stage?"),
        ("forbidden: {gres: no}", "forbidden: this key is called unsupported_options now"),
        ("images: {stage: node, room: 1G}", "images.room: this key is called cache_size now"),
        ("images: {stage: node, folder: x}", "images.folder: write an absolute folder"),
        ("images: {stage: node, cache_size: 1 GB}", "images.cache_size: write a size as 512M,"),
        (
            "{scheduler: local, images: {build: job}}",
            "images.build: `scheduler: local` cannot build in a job",
        ),
        ("unsupported_options: {gres: no}", "unsupported_options.gres: write it in quotes: YAML reads"),
        ("sources: [{where: x, grade: D}]", "sources.0.grade: input should be 'A', 'B' or 'C'"),
        (f"hardware: {{cpu: {{{X86}, memory: 190000}}}}", "hardware.cpu.memory: write a size with"),
        ("queues: {a: {hardware: [cpu], limits: [{time: 1440}]}}", "queues.a.limits.0.time: write a"),
    ],
)  # fmt: skip
def test_a_bad_site_is_explained(tmp_path: Path, changes: str, message: str) -> None:
    assert problem_of(tmp_path, changes).startswith(message)


def test_an_option_that_the_site_rejects_may_stand_nowhere(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "unsupported_options: {gres: GPUs are not asked for}")
    assert problem == "hardware.gpu.options.gres: forbidden: GPUs are not asked for"
    read(tmp_path, "{unsupported_options: {mem: whole nodes}, options: {mem: null}}")


def test_options_are_text_numbers_true_or_null(tmp_path: Path) -> None:
    site = read(tmp_path, "options: {mem: 0, switches: 1, exclusive: true, requeue: null, x: 'no'}")
    assert site.options == {"mem": 0, "switches": 1, "exclusive": True, "requeue": None, "x": "no"}
    assert site.options["switches"] is not True


def test_folders_may_hold_variables(tmp_path: Path) -> None:
    assert read(tmp_path, "tmpdir: $SLURM_TMPDIR").tmpdir == "$SLURM_TMPDIR"
    assert read(tmp_path, "tmpdir: /mnt/bb/$USER").tmpdir == "/mnt/bb/$USER"


def test_images_are_used_where_they_were_built_unless_the_site_says_otherwise(
    tmp_path: Path,
) -> None:
    images = read(tmp_path, "").images
    assert (images.stage, images.build) == ("shared", "login")
    images = read(tmp_path, "images: {stage: node, folder: $SLURM_TMPDIR, cache_size: 1T}").images
    assert (images.folder, images.cache_size) == ("$SLURM_TMPDIR", 1 << 20)


def test_the_engines_that_a_site_may_name_are_those_that_there_are() -> None:
    named = get_args(Images.model_fields["engine"].annotation)
    assert {name for each in named for name in get_args(each)} == set(ENGINES)
