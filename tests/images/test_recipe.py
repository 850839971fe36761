"""Step keys change if an input of the step changes, and only then."""

import json
import os
from pathlib import Path

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.builder.builder import Plan
from argosy_images.builder.recipe import Recipe, Step, bases, image_inputs, nothing_known, plan
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.oci import ImageConfig
from argosy_images.store.store import Store

TEXT = "FROM base\nENV A=1\nCOPY data/ /data/\nRUN first\nRUN last\n"
CHECKSUM = f"sha256:{'0' * 64}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An image's folder, with room for other images beside it."""
    image = tmp_path / "image"
    (image / "data").mkdir(parents=True)
    (image / "data" / "file").write_text("content")
    return image


def recipe(folder: Path, text: str, base: ImageConfig | None = None) -> Recipe:
    folder.mkdir(exist_ok=True)
    (folder / "Containerfile").write_text(text)
    return plan(folder, (lambda _: base) if base else nothing_known)


def steps(folder: Path, text: str) -> tuple[Step, ...]:
    return recipe(folder, text).final.steps


def keys(folder: Path, text: str = TEXT) -> list[str]:
    return [step.key for step in steps(folder, text)]


def last(folder: Path, text: str) -> str:
    return keys(folder, text)[-1]


def config(folder: Path, text: str, base: ImageConfig | None = None) -> ImageConfig:
    return recipe(folder, text, base).final.settings.config


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ArgosyError) as problem:
        recipe(folder, text)
    assert "\n" not in str(problem.value)
    return str(problem.value)


# Instructions that are steps, and the inputs of their keys.


def test_only_instructions_that_change_files_are_steps(folder: Path) -> None:
    text = (
        'FROM base\nARG A\nENV B=1\nLABEL c=d\nUSER e\nEXPOSE 80\nVOLUME /f\nSHELL ["g"]\n'
        "CMD h\nENTRYPOINT i\nSTOPSIGNAL SIGINT\nMAINTAINER j\nWORKDIR /k\nRUN l\nCOPY data /m\n"
    )
    assert [step.entry.line for step in steps(folder, text)] == [1, 13, 14, 15]


def test_a_changed_step_changes_all_keys_after_it(folder: Path) -> None:
    before = keys(folder)
    after = keys(folder, TEXT.replace("first", "other"))
    assert before[:2] == after[:2]
    assert all(old != new for old, new in zip(before[2:], after[2:], strict=True))


def test_another_base_changes_all_keys(folder: Path) -> None:
    assert not set(keys(folder)) & set(keys(folder, TEXT.replace("base", "other")))


def test_a_variable_counts_where_it_is_seen(folder: Path) -> None:
    before, after = keys(folder), keys(folder, TEXT.replace("A=1", "A=2"))
    # COPY does not use the variable, but a program may.
    assert before[:2] == after[:2]
    assert before[2] != after[2]
    text = "FROM base\nENV A=1\nCOPY data/ /$A/\n"
    assert last(folder, text) != last(folder, text.replace("A=1", "A=2"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ENV A=1", "# why\nENV   A=1"),
        ("ENV A=1", "ENV A=1\nLABEL b=c\nCMD d\nEXPOSE 80"),
        ("ENV A=1", "ENV \\\n  A='1'"),
        ("FROM base", "FROM base AS name"),
        ("ENV A=1", "ARG A=1\nENV A=1"),
        ("data/ ", "--chown=1:2 data/ "),
    ],
)
def test_what_changes_no_outcome_does_not_count(folder: Path, before: str, after: str) -> None:
    assert keys(folder) == keys(folder, TEXT.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ENV A=1", "ENV A=1\nUSER me"),
        ("ENV A=1", 'ENV A=1\nSHELL ["/bin/bash", "-c"]'),
        ("RUN last", 'RUN ["last"]'),
        ("data/ ", "--chmod=700 data/ "),
        ("COPY", "ADD"),
        ("RUN last", "RUN --mount=type=tmpfs,target=/a last"),
    ],
)
def test_what_may_change_the_outcome_counts(folder: Path, before: str, after: str) -> None:
    assert last(folder, TEXT) != last(folder, TEXT.replace(before, after))


def test_content_and_mode_of_copied_files_count_and_time_stamps_do_not(folder: Path) -> None:
    before = keys(folder)
    os.utime(folder / "data" / "file", (1, 1))
    assert keys(folder) == before
    (folder / "data" / "file").write_text("other")
    changed = keys(folder)
    assert changed[0] == before[0]
    assert changed[1] != before[1]
    (folder / "data" / "file").chmod(0o755)
    assert keys(folder)[1] != changed[1]


def test_a_new_file_counts_where_its_folder_is_copied(folder: Path) -> None:
    before = keys(folder)
    (folder / "other").touch()
    assert keys(folder) == before
    (folder / "data" / "empty").mkdir()
    assert keys(folder)[1] != before[1]


def test_links_count_by_what_they_point_to(folder: Path) -> None:
    link = folder / "data" / "link"
    link.symlink_to("one")
    before = keys(folder)
    link.unlink()
    link.symlink_to("two")
    assert keys(folder)[1] != before[1]


# Here-documents.


def test_the_text_of_a_here_document_counts(folder: Path) -> None:
    for begin in ("RUN cat <<EOF", "COPY <<EOF /a", "RUN cat <<EOF <<EOF\ntwo\nEOF"):
        text = f"FROM base\n{begin}\none\nEOF\n"
        assert last(folder, text) != last(folder, text.replace("one", "two"))


def test_a_copied_here_document_counts_by_what_its_variables_are(folder: Path) -> None:
    text = "FROM base\nARG A=1\nCOPY <<EOF /a\n$A\nEOF\n"
    assert last(folder, text) != last(folder, text.replace("A=1", "A=2"))
    quoted = text.replace("<<EOF", "<<'EOF'")
    assert last(folder, quoted) == last(folder, quoted.replace("A=1", "A=2"))


# ARG and ENV.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM base\nARG A=1\nRUN a\n", {"A": "1"}),
        ("FROM base\nARG A=1 B=$A-2\nRUN a\n", {"A": "1", "B": "1-2"}),
        ("FROM base\nARG https_proxy\nRUN a\n", {}),
        ("ARG A=1\nFROM base\nRUN a\n", {}),
        ("ARG A=1\nFROM base\nARG A\nRUN a\n", {"A": "1"}),
        ("ARG A=1\nFROM base\nARG A=2\nRUN a\n", {"A": "2"}),
        ("ARG A=1\nFROM base AS b\nARG A\nFROM b\nRUN a\n", {"A": "1"}),
        ("FROM base AS b\nARG A=1\nFROM b AS c\nARG A=2\nFROM c\nRUN a\n", {"A": "2"}),
        ("FROM base AS b\nARG A=1\nFROM base\nRUN a\n", {}),
        ("FROM base AS b\nARG A=1\nENV B=$A\nFROM b\nRUN $A\n", {"A": "1", "B": "1"}),
        ("FROM base\nARG A=1\nENV A=2\nRUN a\n", {"A": "2"}),
        ("FROM base\nENV A=2\nARG A=1\nRUN a\n", {"A": "2"}),
        ("FROM base\nENV A=1\nENV A=2 B=$A\nRUN a\n", {"A": "2", "B": "1"}),
        ("FROM base\nARG TARGETOS\nRUN a\n", {"TARGETOS": "linux"}),
    ],
)
def test_variables_have_scopes(folder: Path, text: str, expected: dict[str, str]) -> None:
    found = steps(folder, text)[-1].settings.variables
    assert found == {"PATH": DEFAULT_PATH, **expected}


def test_an_argument_of_a_parent_stage_counts_once(folder: Path) -> None:
    """Steps that do not name it keep the layers of versions that did not pass it on."""
    text = "FROM base AS b\nARG A=1\nRUN a\nFROM b\nRUN make\nRUN echo $A ${A}\n"
    *_, silent, named = steps(folder, text)
    assert "variable A" not in silent.inputs
    assert named.inputs["variable A"] == "1"
    changed = keys(folder, text.replace("A=1", "A=2"))
    assert silent.key not in changed
    # A later value that no step of the parent has seen, and values of this stage, are inputs.
    for more, value in (
        ("ARG A=2\nFROM b\n", "2"),
        ("FROM b\nARG A=1\n", "1"),
        ("FROM b\nENV A=2\n", "2"),
    ):
        late = steps(folder, text.replace("FROM b\n", more))[-2]
        assert late.inputs["variable A"] == value
        assert late.key != silent.key


def test_arguments_are_not_part_of_the_image(folder: Path) -> None:
    found = config(folder, "FROM base\nARG A=1\nENV B=2\n")
    assert found.environment == {"B": "2"}


# Caches, whose content is no input.


@pytest.mark.parametrize(
    ("step", "is_shared"),
    [
        ("RUN apt-get install -y gcc", True),
        ("RUN --mount=type=tmpfs,target=/t make", True),
        ("RUN pip install numpy", False),
        ('RUN ["python3", "-m", "pip", "list"]', False),
        ("RUN <<end\nuv sync\nend", False),
        ("RUN --mount=type=cache,target=/c make", False),
    ],
)
def test_a_step_that_had_a_cache_is_of_one_image_alone(
    tmp_path: Path, step: str, is_shared: bool
) -> None:
    one, other = (last(tmp_path / name, f"FROM base\n{step}\n") for name in ("one", "other"))
    assert (one == other) is is_shared
    # Another clone of the project finds the step in a shared store.
    (tmp_path / "clone").mkdir()
    assert last(tmp_path / "clone/one", f"FROM base\n{step}\n") == one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM base\nRUN a\n", ["base"]),
        ("FROM base\nCOPY --from=evil / /\nRUN a\n", ["base", "evil"]),
        ("FROM base\nRUN --mount=from=evil,target=/e a\n", ["base", "evil"]),
        ("FROM evil AS e\nRUN b\nFROM base\nCOPY --from=e / /\nRUN a\n", ["base", "evil"]),
        ("FROM evil AS e\nFROM e AS f\nFROM base\nCOPY --from=f / /\nRUN a", ["base", "evil"]),
        ("FROM scratch\nRUN a\n", []),
    ],
)
def test_a_step_stands_on_all_images_whose_files_it_sees(
    folder: Path, text: str, expected: list[str]
) -> None:
    *below, step = steps(folder, text)
    known = {key: name for name in ("base", "evil") for key in keys(folder, f"FROM {name}\n")}
    assert sorted(known[key] for key in bases(step, below)) == expected


# The image's configuration.


def test_a_base_s_environment_is_expanded_and_kept(folder: Path) -> None:
    base = ImageConfig(environment={"PATH": "/base/bin", "A": "1"}, workdir="/place", user="me")
    found = config(folder, "FROM base\nENV PATH=/own:$PATH B=$A\nWORKDIR sub\n", base)
    assert found.environment == {"PATH": "/own:/base/bin", "A": "1", "B": "1"}
    assert (found.workdir, found.user) == ("/place/sub", "me")


def test_a_base_s_configuration_counts_once_it_is_known(folder: Path) -> None:
    text = "FROM base\nRUN a\n"
    unknown = recipe(folder, text)
    known = recipe(folder, text, ImageConfig(environment={"A": "1"}))
    assert [step.base for step in unknown.unknown] == ["base"]
    assert known.unknown == ()
    assert unknown.final.steps[0].key == known.final.steps[0].key
    assert unknown.final.key != known.final.key


@pytest.mark.parametrize(
    ("text", "entrypoint", "cmd"),
    [
        ("", ("base",), ("it",)),
        ('CMD ["a"]\n', ("base",), ("a",)),
        ('ENTRYPOINT ["a"]\n', ("a",), None),
        ('CMD ["a"]\nENTRYPOINT ["b"]\n', ("b",), ("a",)),
        ('ENTRYPOINT ["b"]\nCMD ["a"]\n', ("b",), ("a",)),
        ("CMD a b\n", ("base",), ("/bin/sh", "-c", "a b")),
        ('SHELL ["bash", "-c"]\nCMD a b\n', ("base",), ("bash", "-c", "a b")),
        ('CMD ["a"]\nFROM 1\n', ("base",), ("it",)),
        ('CMD ["a"]\nFROM image\nENTRYPOINT ["b"]\n', ("b",), None),
    ],
)
def test_an_entrypoint_resets_the_command_of_its_base(
    folder: Path, text: str, entrypoint: tuple[str, ...], cmd: tuple[str, ...] | None
) -> None:
    base = ImageConfig(entrypoint=("base",), cmd=("it",))
    found = config(folder, f"FROM base AS image\n{text}", base)
    assert (found.entrypoint, found.cmd) == (entrypoint, cmd)


def test_the_shell_of_a_base_runs_its_commands(folder: Path) -> None:
    base = ImageConfig.from_oci({"Shell": ["/activate", "-c"]})
    text = "FROM base AS b\nRUN a\nFROM b\nRUN a\nCMD a\n"
    planned = recipe(folder, text, base).final
    assert {json.loads(step.inputs["shell"])[0] for step in planned.steps[1:]} == {"/activate"}
    assert planned.settings.config.cmd == ("/activate", "-c", "a")
    own = config(folder, 'FROM base\nSHELL ["bash", "-c"]\n', base)
    assert own.to_oci(())["config"]["Shell"] == ["bash", "-c"]


def test_a_healthcheck_of_a_base_ends_with_another(folder: Path) -> None:
    base = ImageConfig.from_oci({"Healthcheck": {"Test": ["CMD", "a"]}, "ArgsEscaped": True})
    assert config(folder, "FROM base\n", base).others == base.others
    assert config(folder, "FROM base\nHEALTHCHECK NONE\n", base).others == {"ArgsEscaped": True}


def test_a_base_with_triggers_is_refused_by_line(folder: Path) -> None:
    with pytest.raises(ArgosyError, match=r"Containerfile:1: base has ONBUILD .*: COPY \. /app"):
        recipe(folder, "FROM base\n", ImageConfig(on_build=("COPY . /app",)))
    # Docker runs them only in an image that is built from this one.
    text = "FROM scratch\nCOPY --from=base a /\nRUN --mount=from=base,target=/b a\n"
    assert recipe(folder, text, ImageConfig(on_build=("COPY . /app",)))


def test_metadata_is_gathered(folder: Path) -> None:
    found = config(
        folder,
        'FROM base\nARG A=1\nLABEL a=$A\nLABEL b="c d"\nEXPOSE 80 53/udp\nEXPOSE 80\n'
        'VOLUME ["/b", "/a"]\nUSER u$A\nSTOPSIGNAL SIGINT\nMAINTAINER "$A" O\'Neill\n',
    )
    assert found.labels == {"a": "1", "b": "c d"}
    assert (found.exposed, found.volumes) == (("53/udp", "80/tcp"), ("/a", "/b"))
    assert (found.user, found.stop_signal, found.author) == ("u1", "SIGINT", '"$A" O\'Neill')


@pytest.mark.parametrize(
    ("text", "workdir"),
    [
        ("WORKDIR /a/", "/a"),
        ("WORKDIR /a\nWORKDIR b", "/a/b"),
        ("WORKDIR /a\nWORKDIR ../b", "/b"),
        ("ENV A=/c\nWORKDIR $A/d e", "/c/d e"),
        ("WORKDIR /", "/"),
    ],
)
def test_working_directories_build_on_each_other(folder: Path, text: str, workdir: str) -> None:
    found = steps(folder, f"FROM base\n{text}\n")[-1]
    assert found.settings.config.workdir == found.inputs["folder"] == workdir


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("/a", "/a"),
        ("a", "/w/a"),
        ("a/", "/w/a/"),
        (".", "/w/"),
        ("./a/.", "/w/a/"),
        ("/", "/"),
    ],
)
def test_targets_are_relative_to_the_working_directory(
    folder: Path, written: str, target: str
) -> None:
    found = steps(folder, f"FROM base\nWORKDIR /w\nCOPY data {written}\n")[-1]
    assert found.inputs["target"] == target


def test_what_is_left_out_is_noted_by_line(folder: Path) -> None:
    found = recipe(folder, "FROM base\n\nHEALTHCHECK NONE\n")
    [note] = found.notes
    assert note.startswith(f"{folder / 'Containerfile'}:3: HEALTHCHECK NONE: ")


# Stages and other images.


def test_a_stage_goes_on_from_another(folder: Path) -> None:
    one = keys(folder, "FROM base\nRUN a\nRUN b\n")
    two = keys(folder, "FROM base AS below\nRUN a\nFROM below\nRUN b\n")
    assert one == two


def test_scratch_has_no_steps(folder: Path) -> None:
    found = recipe(folder, "FROM scratch\nCOPY data /data\n")
    assert [step.entry.line for step in found.final.steps] == [2]
    assert found.unknown == ()
    assert recipe(folder, "FROM scratch\n").final.key == ""


def test_stages_that_nobody_needs_are_not_planned(folder: Path) -> None:
    found = recipe(folder, "FROM other AS unused\nCOPY missing /\nFROM base\nRUN a\n")
    assert [step.base for step in found.unknown] == ["base"]


def test_files_of_another_stage_count_by_its_steps(folder: Path) -> None:
    text = "FROM base AS one\nRUN a\nFROM base\nCOPY --from=one /b /c\nCOPY --from=0 /b /c\n"
    found = steps(folder, text)
    assert found[1].uses["one"].steps[-1].entry.line == 2
    assert found[2].uses["0"].key == found[1].uses["one"].key
    assert last(folder, text) != last(folder, text.replace("RUN a", "RUN other"))


@pytest.mark.slow
@pytest.mark.parametrize("base", ["scratch", "s{}"])
def test_a_chain_of_stages_may_be_longer_than_calls_are_deep(folder: Path, base: str) -> None:
    stages = 1200
    text = "FROM scratch AS s0\nCOPY data /data\n" + "".join(
        f"FROM {base.format(stage)} AS s{stage + 1}\nCOPY --from=s{stage} /data /data\n"
        for stage in range(stages)
    )
    found = recipe(folder, text)
    assert found == recipe(folder, text)
    assert len(found.final.with_used()) == stages + 1
    assert bases(found.final.steps[-1], found.final.steps[:-1]) == []
    missing = Plan(Store(folder.parent / "store"), folder, (), found).missing()
    assert [step.entry.line for step in missing] == [*range(2, 2 * stages + 3, 2)]


def test_images_that_share_others_are_planned_once(folder: Path) -> None:
    recipe(folder.parent / "x0", "FROM base\nHEALTHCHECK NONE\nRUN a\n")
    for number in range(40):
        below = f"localhost/x{number}"
        recipe(folder.parent / f"x{number + 1}", f"FROM {below}\nCOPY --from={below} /a /b\n")
    found = plan(folder.parent / "x40")
    assert len(found.files) == len(found.final.with_used()) == 41
    assert len(found.notes) == len(found.unknown) == 1


def test_files_of_an_image_count_by_its_reference(folder: Path) -> None:
    text = "FROM base\nCOPY --from=debian:a /b /c\n"
    assert last(folder, text) != last(folder, text.replace("debian:a", "debian:b"))
    assert [step.base for step in recipe(folder, text).unknown] == ["base", "debian:a"]


def test_mounts_count_by_what_is_mounted_where(folder: Path) -> None:
    begin = "FROM base AS one\nRUN a\nFROM base AS two\nRUN b\nFROM base\n"
    run = "RUN --mount=from=one,source=/x,target=/1 --mount=from=two,source=/x,target=/2 c\n"
    swapped = run.replace("one", "o").replace("two", "one").replace("from=o,", "from=two,")
    assert last(folder, begin + run) != last(folder, begin + swapped)
    changed = begin.replace("RUN b", "RUN other")
    assert last(folder, begin + run) != last(folder, changed + run)


def test_mounted_files_of_the_folder_count(folder: Path) -> None:
    text = "FROM base\nRUN --mount=source=data,target=/data a\n"
    before = last(folder, text)
    assert before != last(folder, text.replace("/data a", "/data,rw a"))
    (folder / "data" / "file").write_text("other")
    assert last(folder, text) != before
    assert [path.name for path in recipe(folder, text).files] == ["Containerfile", "file"]


def test_what_a_cache_holds_does_not_count(folder: Path) -> None:
    text = "FROM base\nRUN --mount=type=cache,target=/a,id=one b\n"
    assert last(folder, text) == last(folder, text.replace("one", "two"))


def test_another_image_of_the_project_may_be_a_base(folder: Path) -> None:
    recipe(folder.parent / "other", "FROM base\nENV A=1\nARG B=2\nRUN a\nHEALTHCHECK NONE\n")
    found = recipe(folder, "FROM localhost/other\nRUN b\n")
    assert found.final.steps[-1].settings.variables == {"PATH": DEFAULT_PATH, "A": "1"}
    assert [step.entry.text for step in found.final.steps] == ["FROM base", "RUN a", "RUN b"]
    assert [path.parent.name for path in found.files] == ["image", "other"]
    assert len(found.notes) == 1
    assert [step.base for step in found.unknown] == ["base"]


def test_files_may_come_from_another_image_of_the_project(folder: Path) -> None:
    other = folder.parent / "other"
    recipe(other, "FROM base\nRUN a\n")
    text = "FROM base\nCOPY --from=localhost/other:latest /b /c\n"
    before = last(folder, text)
    recipe(other, "FROM base\nRUN other\n")
    assert last(folder, text) != before


def test_a_dockerfile_is_read_where_there_is_no_containerfile(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM base\nRUN docker\n")
    assert [step.entry.text for step in plan(folder).final.steps][-1] == "RUN docker"
    assert steps(folder, "FROM base\nRUN podman\n")[-1].entry.text == "RUN podman"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("FROM localhost/image\n", 1, "localhost/image: these images need each other"),
        ("FROM a\nCOPY --from=localhost/image b c\n", 2, "localhost/image: these images need each"),
        (
            "\nFROM Upper/case\n",
            2,
            "'Upper/case' names no image in a registry: a repository's name",
        ),
        ("FROM localhost/missing\n", 1, "localhost/missing: there is no "),
        *(
            (f"FROM localhost/{name}\n", 1, "localhost/")
            for name in ("../x", "/etc", "..", "a" * 300)
        ),
        ("FROM a\nCOPY --from=localhost/../x / /\n", 2, "localhost/../x: names no folder of"),
        ('FROM a\nENV A="${B?say which}"\n', 2, "B: say which"),
    ],
)
def test_what_cannot_be_planned_is_named_by_line(
    folder: Path, text: str, line: int, message: str
) -> None:
    assert refused(folder, text).startswith(f"{folder / 'Containerfile'}:{line}: {message}")


@pytest.mark.parametrize(
    "line",
    [
        f"RUN {'[' * 100_000}",
        "ENV A=" + "${B:-" * 1200 + "x" + "}" * 1200,
        "ARG A=" + "${B:-" * 1200 + "x" + "}" * 1200,
        f"CMD {'[' * 2000}1{']' * 2000}",
    ],
    ids=["a list", "a variable", "an argument", "a command"],
)
def test_what_nests_too_deep_is_one_line(folder: Path, line: str) -> None:
    assert "nested too deeply" in refused(folder, f"FROM scratch\n{line}\n")


def test_a_circle_of_images_is_named_where_it_closes(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "Containerfile").write_text("FROM base\nCOPY --from=localhost/image a b\n")
    message = refused(folder, "FROM localhost/other\n")
    assert message.startswith(f"{other / 'Containerfile'}:2: localhost/image: these images need")


# COPY and ADD.


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("COPY missing /x", "missing is not in "),
        ("COPY *.txt /x", "*.txt is not in "),
        ("COPY ../secret /x", "../secret lies outside of "),
        ("COPY link /x", "link lies outside of "),
        ("COPY data", "COPY needs a source and a target"),
        ("COPY data Containerfile /x", "COPY: several sources need a target folder: /x/"),
        ("COPY data <<a /x\na", "COPY: several sources need a target folder: /x/"),
        ("COPY [a-d]* /x", "COPY: several sources need a target folder: /x/"),
        ("COPY https://example.org/a /x", "https://example.org/a is not in "),
        ("ADD https://example.org/a /x", "ADD https://example.org/a: add --checksum=sha256"),
        *(
            (
                f"ADD {git} /x",
                f"ADD {git}: git repositories are not supported; clone a fixed commit",
            )
            for git in ("https://example.org/a.git#v1", "git@example.org:a/b.git", "ssh://a/b")
        ),
        (f"ADD --checksum={CHECKSUM} data /x", "ADD --checksum supports a single URL"),
        (f"ADD --checksum={CHECKSUM} https://a/b data /x/", "ADD --checksum supports a single URL"),
        ("COPY <<a /x\n${B!}\na", "<<a: `${B!}`: unknown operator"),
    ],
)
def test_copy_refuses_by_line(folder: Path, copy: str, message: str) -> None:
    (folder / "link").symlink_to("../../secret")
    (folder / "b").touch()
    found = refused(folder, f"FROM base\n\n{copy}\n")
    assert found.startswith(f"{folder / 'Containerfile'}:3: {message}")


def test_several_sources_may_go_to_the_working_directory(folder: Path) -> None:
    found = steps(folder, "FROM base\nCOPY data Containerfile ./\nCOPY data Containerfile .\n")
    assert found[1].inputs["target"] == found[2].inputs["target"] == "/"


def test_an_address_counts_by_its_checksum(folder: Path) -> None:
    text = f"FROM base\nADD --checksum={CHECKSUM} https://example.org/a /x\n"
    found = steps(folder, text)[-1]
    assert found.inputs["checksum"] == CHECKSUM
    assert found.key != last(folder, text.replace("00 https", "01 https"))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        ("?.txt", ["a.txt", "b.txt"]),
        ("[a]*", ["a.txt"]),
        ("[^a].[tm]*", ["b.txt", "c.md"]),
        ("d*/*.txt", ["e.txt"]),
        ("/d/e.txt", ["e.txt"]),
        ("./d//e.txt", ["e.txt"]),
        ("d", ["e.txt", "f.md"]),
        ("..g", ["..g"]),
        (".", ["..g", "Containerfile", "a.txt", "b.txt", "c.md", "e.txt", "f.md"]),
    ],
)
def test_patterns_name_files(tmp_path: Path, pattern: str, names: list[str]) -> None:
    (tmp_path / "d").mkdir()
    for name in ("a.txt", "b.txt", "c.md", "d/e.txt", "d/f.md", "..g"):
        (tmp_path / name).touch()
    found = steps(tmp_path, f"FROM base\nCOPY {pattern} /x/\n")[-1]
    assert sorted(path.name for path in found.sources) == names


def test_a_link_to_a_folder_stands_for_what_is_in_it(folder: Path) -> None:
    (folder / "link").symlink_to("data")
    found = steps(folder, "FROM base\nCOPY link /x\n")[-1]
    assert found.sources == (folder / "data" / "file",)


@pytest.mark.parametrize("name", [".containerignore", ".dockerignore"])
@pytest.mark.parametrize(
    ("ignored", "names"),
    [
        ("*.log", ["keep.md", "note.md", "sub.log"]),
        ("**/*.log", ["keep.md", "note.md"]),
        ("# comment\n\n  /sub/  \n", ["note.md", "top.log"]),
        ("sub\n!sub/keep.md\n", ["keep.md", "note.md", "top.log"]),
        ("*\n!*.md\n", ["note.md"]),
        ("*/*.md", ["note.md", "sub.log", "top.log"]),
        (".*", ["keep.md", "note.md", "sub.log", "top.log"]),
        ("s?b\n!sub", ["keep.md", "note.md", "sub.log", "top.log"]),
        ("./top.log\nno?e.md", ["keep.md", "sub.log"]),
    ],
)
def test_ignored_files_are_left_out(
    tmp_path: Path, name: str, ignored: str, names: list[str]
) -> None:
    files = tmp_path / "image"
    (files / "sub").mkdir(parents=True)
    for each in ("top.log", "note.md", "sub/keep.md", "sub/sub.log"):
        (files / each).touch()
    (files / name).write_text(ignored)
    found = steps(files, "FROM base\nCOPY . /x/\n")[-1]
    copied = {path.name for path in found.sources} - {name, "Containerfile"}
    assert sorted(copied) == names


@pytest.mark.parametrize("pattern", ["a[b--c]", "[z-a]", "\\"])
def test_a_pattern_that_is_none_is_named_with_its_file(folder: Path, pattern: str) -> None:
    (folder / ".containerignore").write_text(f"{pattern}\n")
    with pytest.raises(ArgosyError, match=r"/\.containerignore: "):
        steps(folder, "FROM base\nCOPY . /x/\n")


def test_podman_s_ignore_file_goes_before_docker_s(folder: Path) -> None:
    (folder / ".containerignore").write_text("Containerfile\n")
    (folder / ".dockerignore").write_text("data\n")
    found = steps(folder, "FROM base\nCOPY data /x/\n")[-1]
    assert [path.name for path in found.sources] == ["file"]


@pytest.mark.parametrize("source", ["data", "data/file", "data/f*"])
def test_an_ignored_source_is_told_from_a_missing_one(folder: Path, source: str) -> None:
    (folder / ".containerignore").write_text("data\n")
    message = refused(folder, f"FROM base\nCOPY {source} /x\n")
    assert message == f"{folder / 'Containerfile'}:2: {source} is left out by the ignore file"


def test_inputs_are_the_containerfile_and_what_it_copies(folder: Path) -> None:
    (folder / "other").touch()
    recipe(folder, TEXT + "COPY data /again\n")
    found = [Path(path).name for path in image_inputs(folder)]
    assert found == ["Containerfile", "file"]
