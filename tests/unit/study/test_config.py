"""Bad configurations get one line with place and remedy; good ones expand to stable runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_studies import runs_of

from argosy.study.config import Source, parse_config
from argosy.study.image_names import archive_of, image_name
from argosy.study.models import Config
from argosy.study.runs import Run, expand
from argosy.study.values import words as split
from argosy_common.errors import ArgosyError

GOOD = """
experiments:
  digits:
    image: torch-cpu
    command: python3 train.py --name 'a b; $(rm -rf /)'
    scale: {nodes: [2, 1], repeats: 2}
"""


def parse(text: str) -> Config:
    values = yaml.safe_load(text)
    return parse_config(values, [Source("config/config.yaml", values)])


def test_runs_have_ids_that_do_not_depend_on_the_other_points() -> None:
    few = {run.run_id: run for run in expand(parse(GOOD))}
    more = {run.run_id: run for run in expand(parse(GOOD.replace("[2, 1]", "[4, 1, 2]")))}
    assert list(few) == [
        "nodes1-ranks1-repeat1",
        "nodes1-ranks1-repeat2",
        "nodes2-ranks1-repeat1",
        "nodes2-ranks1-repeat2",
    ]
    assert all(more[run_id] == run for run_id, run in few.items())


def test_a_command_is_split_as_a_shell_would_and_never_given_to_one() -> None:
    command = parse(GOOD).experiments["digits"].command
    assert command == ("python3", "train.py", "--name", "a b; $(rm -rf /)")


ODD = (
    *("1d" * 1000, "9999999999999d", "9" * 400 + "h", "1" * 5000 + "G"),
    *("1e999", "0x10", "1_0", "\u0663m"),
    *(10**30, 10**19, -1, 0, 1e308, float("inf"), float("nan"), True, None),
    *([], {}, "", " ", "\x00", [[[[]]]], ["x" * 5000], {"a": {"b": {}}}),
)
OF_EXPERIMENT = (
    *("hang_timeout", "throughput", "command", "image", "environment", "checkpoints", "sweep"),
    *("launcher", "runtime", "hardware", "queue", "timeline", "independent"),
)
KEYS = (
    *(("scale", key) for key in ("kind", "nodes", "ranks_per_node", "repeats")),
    *(("resources", key) for key in ("time", "memory_per_rank", "cpus_per_rank", "gpus_per_rank")),
    *((key,) for key in OF_EXPERIMENT),
)


@pytest.mark.parametrize("keys", KEYS, ids=".".join)
@pytest.mark.timeout(60)
def test_any_value_of_any_key_gives_runs_or_one_line(keys: tuple[str, ...]) -> None:
    for value in (*ODD, *([each] for each in ODD)):
        experiment: dict[str, Any] = {
            "image": "torch-cpu",
            "command": "python3 train.py",
            "scale": {"nodes": [1, 2]},
            "resources": {},
        }
        inner = experiment
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        values = {"experiments": {"digits": experiment}}
        try:
            assert len(expand(parse_config(values, [Source("config.yaml", values)]))) < 100_000
        except ArgosyError as problem:
            assert str(problem).startswith("config.yaml: experiments.digits")


def test_durations_and_sizes() -> None:
    text = GOOD + "    resources: {time: 1d2h30m, memory_per_rank: 16G}\n"
    resources = parse(text).experiments["digits"].resources
    assert (resources.time, resources.memory_per_rank) == (95_400, 16_384)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("resources: {time: 90}", "resources.time: write a duration with its unit: 90s, 30m"),
        ("resources: {time: 1:30:00}", "resources.time: write a duration with its unit"),
        ("resources: {time: 1.5}", "resources.time: write a duration with its unit"),
        ("resources: {memory_per_rank: 16}", "memory_per_rank: write a size with its unit: 512M"),
        ("hang_timeout: 300", "hang_timeout: write a duration with its unit"),
        ("checkpoints: {warning: 120}", "checkpoints.warning: write a duration with its unit"),
        ("needs: {time: 2m}", "needs: this key is called resources now"),
        ("resources: {time: soon}", "resources.time: write a duration as 30m"),
        ("throughput: '('", "throughput: is not a regular expression"),
        ("throughput: 'a'", "throughput: needs exactly one group"),
        ("launcher: plain\n    timeline: true", "timeline: needs Horovod"),
        ("timeline: maybe", "timeline: input should be"),
        ("independent: true", "independent: needs ranks that do not communicate; remove it"),
        ("environment: {A B: c}", "a variable's name may contain letters, digits and '_'"),
        (
            "environment: {ARGOSY_NODE: 0}",
            "variables that begin with ARGOSY_ are reserved for Argosy",
        ),
        (
            'environment: {LINES: "a\\nb"}',
            "environment.LINES: contains characters that cannot be printed",
        ),
        (
            "environment: {DEBUG: true}",
            "environment.DEBUG: write it in quotes: YAML reads it as true or false",
        ),
        ("launcher: m/pi", "launcher: a name may contain"),
        ("runtime: docker", "runtime.0: input should be"),
        ("runtime: udocker", "runtime: udocker is a former name: write container"),
        ("runtime: [native, udocker]", "runtime: udocker is a former name: write container"),
        ("runtime: []", "runtime: name container, native, or both once"),
        ("runtime: [native, native]", "runtime: name container, native, or both once"),
        *((f"hang_timeout: {wrong}", "hang_timeout: ") for wrong in ("true", "soon", "3s", "-1")),
    ],
)
def test_a_wrong_value_of_a_key(written: str, message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        parse(f"{GOOD}    {written}\n")
    text = str(problem.value)
    assert text.startswith("config/config.yaml: experiments.digits")
    assert message in text and "\n" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("image:", "imgae:"), "experiments.digits.imgae: no such key; did you mean image?"),
        (("repeats: 2", "repeat: 2"), "experiments.digits.scale.repeat: no such key; did you mean"),
        (
            ("repeats: 2", "repeats: two"),
            "experiments.digits.scale.repeats: input should be a valid",
        ),
        (("repeats: 2", "repeats: 0"), "experiments.digits.scale.repeats: input should be greater"),
        (("[2, 1]", "[2, -1]"), "experiments.digits.scale.nodes.1: input should be greater"),
        (("[2, 1]", "[2, 2]"), "the same count is listed twice"),
        (("[2, 1]", "[]"), "experiments.digits.scale.nodes"),
        (("digits:", "'my digits; rm':"), "a name may contain letters, digits"),
        (("digits:", "tables:"), "choose another name"),
        (
            ("image: torch-cpu", "image: ../../etc"),
            "experiments.digits.image: is not an image: write",
        ),
        (
            ("image: torch-cpu", "image: dokcer://python"),
            "image: is not an image: write a folder of",
        ),
        (("image: torch-cpu", "image: torch cpu"), "experiments.digits.image: a name may contain"),
        (
            ("torch-cpu", "docker://"),
            "experiments.digits.image: is not an image: write a folder of containers/",
        ),
        (
            ("torch-cpu", "'a/-.tar'"),
            "experiments.digits.image: is not an image: write a folder of containers/",
        ),
        (("torch-cpu", '"a\\n.tar"'), "image: contains characters that cannot be printed"),
        (("'a b; $(rm -rf /)'", "'a b"), "experiments.digits.command: cannot be split into words"),
        (("image: torch-cpu", "runtime: container"), "digits: add image, or set runtime: native"),
        (
            ("image: torch-cpu", "runtime: [container, native]"),
            "digits: add image, or set runtime: native",
        ),
        (("train.py", "9" * 2_000_000), "experiments.digits.command: is longer than 128 KiB"),
        (("experiments:", "experiment:"), "experiment: no such key; did you mean experiments?"),
    ],
)
def test_bad_values_name_file_key_and_remedy(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        parse(GOOD.replace(*change))
    text = str(problem.value)
    assert text.startswith("config/config.yaml: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3 a.py && python3 b.py", "&&"),
        ("python3 a.py | tee log.txt", "|"),
        ("python3 a.py >log.txt 2>&1", ">log.txt"),
        ("python3 a.py 2>&1", "2>&1"),
        ("cd code; python3 a.py", ";"),
        ("python3 a.py &", "&"),
        ("python3 a.py\npython3 b.py", "several lines"),
    ],
)
def test_what_only_a_shell_carries_out_is_refused(command: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"has {re.escape(said)}"):
        split(command)


def test_what_is_quoted_is_text() -> None:
    words = split(
        r"""find . -name '*.py' -exec grep -l "a && b" {} \; '>' --x=a>b a&b \
        bash -c 'x; y | z > w'"""
    )
    assert words[6:] == (
        *("-l", "a && b", "{}", ";", ">", "--x=a>b", "a&b"),
        *("bash", "-c", "x; y | z > w"),
    )


def test_both_runtimes_make_two_experiments() -> None:
    both = GOOD.replace("scale:", "runtime: [native, container]\n    scale:")
    runs = [run for run in expand(parse(both)) if run.nodes == 2 and run.repeat == 1]
    assert [(run.experiment, run.runtime, run.image, run.native_of) for run in runs] == [
        ("digits", "container", "torch-cpu", None),
        ("digits-native", "native", "torch-cpu", "digits"),
    ]
    # The runs in containers are unchanged.
    assert runs[0] == next(run for run in expand(parse(GOOD)) if run.run_id == runs[0].run_id)
    with pytest.raises(
        ArgosyError, match="digits-native: the runtime of digits already adds an experim"
    ):
        parse(both + GOOD.replace("experiments:\n", "").replace("digits", "digits-native"))


def test_some_of_the_experiments_are_run() -> None:
    two = GOOD + GOOD.replace("experiments:\n", "").replace("digits", "letters")
    runs = expand(parse(two + "only: [letters]\n"))
    assert {run.experiment for run in runs} == {"letters"}
    with pytest.raises(
        ArgosyError, match="only: word: is not an experiment; there are digits, letters"
    ):
        parse(two + "only: [word]\n")
    with pytest.raises(ArgosyError, match="only"):
        parse(two + "only: []\n")


@pytest.mark.parametrize(
    ("name", "experiments"), [("paper", 6), ("frameworks", 9), ("launchers", 6), ("downscaling", 4)]
)
def test_the_published_studies_are_of_themselves_alone(
    project: Path, name: str, experiments: int
) -> None:
    """Merge them with config.yaml like Snakemake."""
    values = yaml.safe_load((project / "config/config.yaml").read_text())
    more = yaml.safe_load((project / f"config/{name}.yaml").read_text())
    values = {**values, **more, "experiments": {**values["experiments"], **more["experiments"]}}
    runs = expand(parse_config(values, [Source(f"config/{name}.yaml", values)]))
    assert len({run.experiment for run in runs}) == experiments
    assert "digits" not in {run.experiment for run in runs}
    for run in runs:
        program = next(word for word in run.command if word.startswith("/workloads/"))
        assert (project / f"containers{program}").exists()


def test_without_a_container_the_image_may_be_named_or_not() -> None:
    for change in ("runtime: native", "runtime: native\n    image: torch-cpu"):
        [run, *_] = expand(parse(GOOD.replace("image: torch-cpu", change)))
        assert (run.experiment, run.runtime, run.native_of) == ("digits", "native", None)
        assert run.image == ("torch-cpu" if "image" in change else None)


STALLS = (
    GOOD
    + """
studies:
  stalls:
    digits: {synthetic: --synthetic, warm: '--data /dev/shm/a b'}
"""
)


def test_a_study_of_stalls_makes_the_experiments_it_needs() -> None:
    runs = expand(parse(STALLS.replace("repeats: 2", "repeats: 1, ranks_per_node: 4")))
    assert [(run.experiment, run.nodes, run.ranks_per_node) for run in runs] == [
        ("digits", 1, 4),
        ("digits", 2, 4),
        ("digits-synthetic", 1, 4),
        ("digits-synthetic", 2, 4),
        ("digits-alone", 1, 1),
        ("digits-warm", 1, 4),
        ("digits-warm", 2, 4),
    ]
    synthetic, warm = runs[2], runs[-1]
    assert synthetic.command == (*runs[0].command, "--synthetic")
    assert warm.command[-3:] == ("--data", "/dev/shm/a", "b")
    assert synthetic.variant and (synthetic.variant.of, synthetic.variant.data) == (
        "digits",
        "synthetic",
    )


def test_a_run_is_described_by_the_keys_that_are_set() -> None:
    """Otherwise an upgrade would measure every run again."""
    empty = {"environment": {}, "data": {}, "metrics": {}, "outputs": None, "timeline": False}
    for run in (expand(parse(STALLS))[0], *runs_of(command="true '{lr}'", checkpoints={}, **empty)):
        content = run.model_dump(mode="json")
        assert " ".join(content) == (
            "command launcher resources checkpoints throughput experiment nodes ranks_per_node repeat "
            "scaling image runtime"
        )
        assert [*content["resources"]] == [
            "cpus_per_rank",
            "gpus_per_rank",
            "memory_per_rank",
            "time",
        ]
    assert content["checkpoints"] == {"warning": 120, "requeues": 10}


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ("timeline: true", "timeline", True),
        ("launcher: plain\n    independent: true", "independent", True),
        (
            "environment: {SIZE: 33554432, DEBUG: ''}",
            "environment",
            {"SIZE": "33554432", "DEBUG": ""},
        ),
        ("hang_timeout: 10m", "hang_timeout", 600),
        *((f"hang_timeout: {off}", "hang_timeout", 0) for off in ("off", "'off'", "0")),
    ],
)
def test_an_optional_key_is_in_a_runs_description(keys: str, field: str, value: object) -> None:
    (run, *_) = expand(parse(f"{GOOD}    {keys}\n"))
    assert getattr(run, field) == value
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_one_rank_a_node_is_alone_already() -> None:
    assert {run.experiment for run in expand(parse(STALLS))} == {
        "digits",
        "digits-synthetic",
        "digits-warm",
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            STALLS.replace("    digits: {syn", "    other: {syn"),
            "studies.stalls.other: is not an exper",
        ),
        (STALLS.replace("--synthetic,", "'',"), "studies.stalls.digits.synthetic"),
        (STALLS.replace("digits", "d" * 60), "has at most 64 characters"),
        (
            STALLS.replace(
                "\nstudies", "  digits-warm: {image: a, command: b, scale: {nodes: [1]}}\nstudies"
            ),
            "experiments.digits-warm: studies.stalls.digits already adds an experiment of this "
            "name",
        ),
    ],
)
def test_mistakes_in_a_study(changed: str, said: str) -> None:
    with pytest.raises(ArgosyError) as caught:
        parse(changed)
    assert said in str(caught.value)


def test_the_file_that_says_it_is_blamed() -> None:
    base = yaml.safe_load(GOOD)
    own = {"site": 7, "experiments": {"digits": {"scale": {"repeat": 3}}}}
    merged = yaml.safe_load(GOOD)
    merged |= {"site": 7, "queeu": "long"}
    merged["experiments"]["digits"]["scale"] |= {"repeat": 3, "nodes": [0]}
    base["experiments"]["digits"]["scale"]["nodes"] = [0]
    sources = [
        Source("config/config.yaml", base),
        Source("my.yaml", own),
        Source("--config", {"queeu": "long"}),
    ]
    with pytest.raises(ArgosyError) as problem:
        parse_config(merged, sources)
    parts = str(problem.value)
    assert "my.yaml: site: " in parts
    assert "config/config.yaml: experiments.digits.scale.nodes.0: " in parts
    assert "my.yaml: experiments.digits.scale.repeat: no such key" in parts
    assert "--config: queeu: no such key; did you mean queue?" in parts
    swept = yaml.safe_load(GOOD)
    swept["experiments"]["digits"] |= {"sweep": {"lr": [1, 2]}, "command": "python3 a.py {lr}"}
    swept["only"] = ["digits-lr3"]
    with pytest.raises(ArgosyError) as problem:
        parse_config(swept, [Source("config/config.yaml", swept), Source("--config", {})])
    assert str(problem.value) == (
        "config/config.yaml: only: digits-lr3: is not an experiment; did you mean digits-lr2 or digits-lr1?"
    )
    with pytest.raises(ArgosyError, match="the configuration: experiments: this key is missing"):
        parse_config({}, [])


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("torch-cpu", "torch-cpu"),
        ("docker://docker.io/library/python:3.12", "python-3.12"),
        ("docker://python", "python-latest"),
        (
            "docker://registry.example.org:5000/Team/tool",
            "registry.example.org-5000-Team-tool-latest",
        ),
        (f"docker://team/tool@sha256:{'ab' * 32}", "team-tool-abababababab"),
        ("udocker:team/tool:1", "team-tool-1"),
        ("udocker:tool", "tool-latest"),
        ("../my images/tool v1.oci.tar", "tool-v1.oci"),
        ("/scratch/tool.tar.gz", "tool"),
        ("my.tar.files/tools.tar:team/tool:1", "tools-team-tool-1"),
        *((f"images/tool.{kind}", "tool") for kind in ("tar.xz", "txz", "tar.bz2", "tbz", "tzst")),
    ],
)
def test_an_image_that_is_taken_has_a_name_in_the_project(image: str, name: str) -> None:
    config = parse(GOOD.replace("torch-cpu", repr(image)))
    assert {run.image for run in expand(config)} == {name}
    assert config.taken_images == ({} if image == name else {name: image})


def test_the_file_of_an_archive_is_known_without_the_image_in_it() -> None:
    assert archive_of("../x.tar.gz") == archive_of("../x.tar.gz:team/tool:1") == "../x.tar.gz"
    assert archive_of("my.tar.files/x.tgz:1") == "my.tar.files/x.tgz"
    for other in (
        "torch-cpu",
        "x.tar.d/y",
        "docker://team/x.tar:1",
        "udocker:x.tar",
        "x.tar:",
        "tar",
    ):
        assert archive_of(other) == ""


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    long = "docker://registry.example.org/" + "a-long-path/" * 6
    first, second = image_name(f"{long}one:1"), image_name(f"{long}two:1")
    assert len(first) == len(second) == 64
    assert first != second


def test_two_images_of_one_name_are_refused() -> None:
    text = GOOD + GOOD.replace("experiments:\n", "").replace("digits", "others")
    assert parse(text.replace("torch-cpu", "udocker:team/tool:1")).taken_images
    both = text.replace("torch-cpu", "docker://team/tool:1", 1).replace(
        "torch-cpu", "udocker:team/tool:1"
    )
    with pytest.raises(
        ArgosyError, match=r"experiments.others.image: .* would both be named team-tool-1"
    ):
        parse(both)


def test_what_a_command_line_can_say_is_taken_as_it_is_meant() -> None:
    one = {"image": "i", "command": "c", "scale": {"nodes": ["1", "2"], "repeats": "3"}}
    resources = {"gpus_per_rank": "1", "cpus_per_rank": "2", "same_allocation": "true"}
    values = {"only": "one", "experiments": {"one": {**one, "resources": resources}}}
    config = parse_config(values, [])
    assert config.only == ("one",)
    experiment = config.experiments["one"]
    assert (experiment.scale.nodes, experiment.scale.repeats) == ((1, 2), 3)
    asked = experiment.resources
    assert (asked.gpus_per_rank, asked.cpus_per_rank, asked.same_allocation) == (1, 2, True)
    values["experiments"]["one"]["scale"] = {"nodes": 2}
    assert parse_config(values, []).experiments["one"].scale.nodes == (2,)


@pytest.mark.parametrize("nodes", [[], {}, None, "many", ["²"], [True], ["-1"], 1.5])
def test_no_message_speaks_of_what_is_python_s_own(nodes: Any) -> None:
    one = {"image": "i", "command": "c", "scale": {"nodes": nodes}}
    with pytest.raises(ArgosyError, match=r"scale\.nodes") as problem:
        parse_config({"experiments": {"one": one}}, [])
    assert "tuple" not in str(problem.value).lower()
