"""A probe's choices from the looks at nodes, and the site's file that it writes."""

from pathlib import Path

import pytest
import yaml
from node_looks import facts, folder, interface, kind, look, looked, met, queue

from argosy.probe.choices import absent_folders, choose_interface, choose_tmpdir
from argosy.probe.probing import find_drift
from argosy.probe.site_draft import draft_site, plain, site_text
from argosy.site.models import read_site


def test_the_fastest_interface_over_which_nodes_met() -> None:
    second = met(mgmt0=1.1e8, hsn0=2.2e9, ib9="timed out")
    found = choose_interface([looked(look(), second)])
    assert found.value == "hsn0"
    assert "mgmt0 105 MiB/s" in found.origin
    assert "ib9 (timed out)" in found.origin


def test_of_interfaces_that_are_as_fast_the_one_made_for_it() -> None:
    first = look(interfaces=[interface("eth0"), interface("net2", infiniband=True)])
    assert choose_interface([looked(first, met(eth0=1.2e9, net2=1.0e9))]).value == "net2"
    assert choose_interface([looked(look(), met(eth0=1.2e9, eth1=1.0e9))]).value == "eth0"


def test_all_kinds_of_nodes_have_to_have_it() -> None:
    both = [
        looked(look(), met(eth0=1e8, hsn0=2e9)),
        looked(look(), met(eth0=1e8), of=kind("gpu")),
    ]
    assert choose_interface(both).value == "eth0"


@pytest.mark.parametrize(
    ("looks", "value", "words"),
    [
        ((look(), met(eth0="refused")), "?", "over any of them"),
        ((look(interfaces=[interface("eth0")]),), "eth0", "the only one that nodes have"),
        ((look(interfaces=[interface("eth0"), interface("ib0")]),), "?", "they have eth0, ib0"),
        ((), "?", "no two nodes were inspected together"),
    ],
)
def test_where_no_two_nodes_met(looks: tuple[object, ...], value: str, words: str) -> None:
    found = choose_interface([looked(*looks)])  # type: ignore[arg-type]
    assert (found.value, words in found.origin) == (value, True)


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [
        ([folder("/tmp"), folder("$SLURM_TMPDIR", folder="/scratch/7")], "$SLURM_TMPDIR"),
        # A variable that says nothing new.
        ([folder("/tmp"), folder("$TMPDIR", folder="/tmp")], "/tmp"),
        ([folder("/tmp", kind="tmpfs"), folder("/scratch")], "/scratch"),
        ([folder("/tmp", kind="tmpfs")], "/tmp"),
        ([folder("/tmp"), folder("$SCRATCH", folder="/lustre/me", kind="lustre")], "/tmp"),
        ([folder("/tmp"), folder("/scratch", writable=False)], "/tmp"),
        ([folder("/tmp"), folder("/scratch", size_mib=20_000)], "/scratch"),
        ([folder("/tmp", runs_programs=False), folder("/var/tmp", size_mib=10)], "/var/tmp"),
        # One disk, of which another program took a piece between the two looks.
        ([folder("/tmp", free_mib=999), folder("/var/tmp", free_mib=1000)], "/tmp"),
        ([folder("/tmp", free_mib=1000), folder("/var/tmp", free_mib=999)], "/tmp"),
        # Such a folder cannot be written into a site's file.
        ([folder("/tmp"), folder("/a b;c", size_mib=20_000)], "/tmp"),
        ([folder("/tmp", writable=False)], None),
    ],
)
def test_a_folder_for_temporary_files(folders: list[dict[str, object]], chosen: str | None) -> None:
    found = choose_tmpdir([look(scratch=folders), look(scratch=folders)])
    assert (found and found.value) == chosen


def test_a_folder_that_one_node_lacks_is_not_chosen() -> None:
    found = choose_tmpdir(
        [
            look(scratch=[folder("/tmp"), folder("/ssd", size_mib=20_000)]),
            look(scratch=[folder("/tmp")]),
        ]
    )
    assert found and found.value == "/tmp"


def test_a_variable_that_is_the_same_here_is_not_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYTMP", "/ssd/me")
    found = choose_tmpdir([look(scratch=[folder("/tmp"), folder("$MYTMP", folder="/ssd/me")])])
    assert found and found.value == "/tmp"


def test_folders_that_nodes_lack() -> None:
    found = absent_folders([look(absent=("/home/me",)), look(absent=())])
    assert list(found) == ["/home/me"]


def test_a_queue_for_gpus_alone_and_an_account() -> None:
    gpus = kind("a100", gpus=4, gpu="a100", options={"gres": "gpu:a100:{gpus}"}, threads_per_core=2)
    given = facts(
        kinds=(gpus,),
        queues=(queue(kinds=("a100",), gpus_only=True, minutes=None, aside="for tests"),),
        account="proj",
        account_required=True,
    )
    draft = draft_site("slurm", given, [looked(look(), met(ib0=1e9), of=gpus)])
    assert plain(draft.keys) == {
        "scheduler": "slurm",
        "cluster_name": "bed",
        "interface": "ib0",
        "account": "proj",
        "account_required": True,
        "hardware": {
            "a100": {
                "architecture": "x86_64",
                "cores": 64,
                "threads_per_core": 2,
                "memory": "250000M",
                "gpus": 4,
                "gpu": "a100",
                "options": {"gres": "gpu:a100:{gpus}"},
            }
        },
        "queues": {
            "batch": {
                "hardware": ["a100"],
                "options": {"partition": "batch"},
                "limits": [{"nodes": 2}],
                "gpus_only": True,
                "only_by_name": True,
            }
        },
    }
    assert any("found none" in each for each in draft.notes)
    assert any("tmpdir (no node-local folder" in each for each in draft.unknown)


def test_an_account_that_nobody_knows_is_left_to_fill_in() -> None:
    draft = draft_site("slurm", facts(account_required=True), [])
    assert plain(draft.keys)["account"] == "?"
    assert any(each.startswith("account (") for each in draft.unknown)


def test_what_will_be_in_the_way_is_said() -> None:
    first = look(
        pythons=("python3=3.6.8",), user_namespaces=False, outside={"index.example": "timed out"}
    )
    second = look(
        node="n2",
        number=1,
        meeting={
            "interfaces": {
                "ib0": {"bytes_per_s": 1.0, "clock_ahead_s": -70.0, "clock_within_s": 0.1}
            }
        },
    )
    notes = " / ".join(draft_site("slurm", facts(), [looked(first, second)]).notes)
    for words in (
        "cpu (n1): Rocky Linux 9.4, Linux 5.14.0, Python 3.6.8, NO user namespaces",
        "cpu (n1): Argosy's environment does NOT run there",
        "cpu (n1): does not reach index.example (timed out)",
        "cpu (n2): its clock and its neighbour's differ by 70.0 s",
    ):
        assert words in notes


GPUS = kind("a100", gpus=4, gpu="a100", options={"gres": "gpu:a100:{gpus}"})
FACTS = facts(
    kinds=(kind(), GPUS),
    queues=(queue(kinds=("cpu", "a100")), queue("long", minutes=10_080.0)),
    unknown=("limits of QoS (sacctmgr: denied)",),
)
LOOKED = [
    looked(look(scratch=[folder("/tmp")]), met(hsn0=1e9)),
    looked(look(), met(hsn0=2e9), of=GPUS),
]


def test_it_is_a_site_and_each_value_says_where_it_comes_from(tmp_path: Path) -> None:
    draft = draft_site("slurm", FACTS, LOOKED)
    text = site_text(draft, ["Written by a test."])
    (tmp_path / "site.yaml").write_text(text)
    site = read_site(tmp_path)
    assert site.interface == "hsn0"
    assert site.hardware["a100"].options == {"gres": "gpu:a100:{gpus}"}
    assert site.queues["long"].limits[0].time == 7 * 86_400
    assert yaml.safe_load(text) == plain(draft.keys)
    assert "# two nodes reached each other over it: hsn0 954 MiB/s\ninterface: hsn0\n" in text
    assert "# - limits of QoS (sacctmgr: denied)\n" in text
    assert max(map(len, text.splitlines())) <= 112


def test_what_a_node_calls_itself_stays_a_comment(tmp_path: Path) -> None:
    evil = look(
        node="n\nscheduler: local\n#", system="x\r\ninterface: lo", scratch=[folder("/tmp")]
    )
    draft = draft_site("slurm", FACTS, [looked(evil, met(hsn0=1e9))])
    text = site_text(draft, ["head"])
    assert yaml.safe_load(text) == plain(draft.keys)


def test_nothing_differs_from_itself_however_it_is_written() -> None:
    today = plain(draft_site("slurm", FACTS, LOOKED).keys)
    written = yaml.safe_load(yaml.safe_dump(today).replace("time: 7d", "time: 168h"))
    assert [*find_drift(written, today)] == []


def test_names_and_further_keys_are_the_files_own() -> None:
    today = plain(draft_site("slurm", FACTS, LOOKED).keys)
    written = yaml.safe_load(yaml.safe_dump(today))
    written["queues"]["mine"] = written["queues"].pop("long")
    written["options"] = {"mail-type": "FAIL"}
    written["environment"] = {"A": "b"}
    assert [*find_drift(written, today)] == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("interface", "eth0", "interface: the file says eth0, the cluster hsn0"),
        ("hardware.cpu.cores", 32, "hardware.cpu.cores: the file says 32, the cluster 64"),
        ("hardware.a100.gpus", 8, "hardware.a100.gpus: the file says 8, the cluster 4"),
        (
            "queues.batch.options",
            {"partition": "old"},
            "queues.batch: the cluster has none (old)",
        ),
        ("account_required", True, "account_required: the file says True, the cluster False"),
    ],
)
def test_what_differs_is_named(key: str, value: object, said: str) -> None:
    today = plain(draft_site("slurm", FACTS, LOOKED).keys)
    written = yaml.safe_load(yaml.safe_dump(today))
    *folders, last = key.split(".")
    place = written
    for each in folders:
        place = place[each]
    place[last] = value
    assert said in [*find_drift(written, today)]
