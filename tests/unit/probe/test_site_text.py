"""The file that a probe writes, and where an older one differs from the cluster."""

from pathlib import Path

import pytest
import yaml
from node_looks import facts, folder, kind, look, looked, met, queue

from argosy.probe.probing import find_drift
from argosy.probe.site_draft import draft_site, plain, site_text
from argosy.site.models import read_site

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
