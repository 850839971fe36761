"""A job whose nodes would crowd a shared file system is told before it is submitted."""

from pathlib import Path

import pytest
from run_files import run_spec

from argosy.jobs.image_uses import crowd
from argosy_common.files import write_json

DIGEST = f"sha256:{'0' * 64}"


def planned(folder: Path, nodes: int, stage: str = "") -> Path:
    run = folder / "results/site/study" / f"nodes{nodes}"
    run.mkdir(parents=True)
    image = {"name": "torch", "digest": DIGEST}
    write_json(run / "run.json", run_spec(run_id=run.name, nodes=nodes, image=image).content())
    (run / "job.sbatch").write_text(
        f"export ARGOSY_STORE=/store\nnode_command=(\n    --digest {DIGEST}\n{stage})\n"
    )
    return run


@pytest.mark.parametrize(
    ("nodes", "stage", "said"),
    [
        (62, "", False),
        (63, "", True),
        (1000, "", True),
        (1000, '    --stage node --stage-folder "/tmp"\n', False),
        (1000, "    --stage memory\n", False),
    ],
)
def test_from_so_many_nodes_on_that_use_the_image_in_place(
    tmp_path: Path, nodes: int, stage: str, said: bool
) -> None:
    runs = [planned(tmp_path, 1), planned(tmp_path, nodes, stage)]
    found = crowd(runs)
    assert bool(found) is said
    if nodes == 1000 and said:
        assert found == (
            "study/nodes1000: 1000 nodes will load the image from the shared file system, with about 16.0 "
            "million calls at once; `images.stage: node` or `memory` in the site's site.yaml makes that a "
            "few hundred for each node (docs/images.md)"
        )


def test_a_study_without_images_is_no_crowd(tmp_path: Path) -> None:
    run = planned(tmp_path, 1000)
    (run / "job.sbatch").write_text('node_command=(bash "$runtime/native-node.sh")\n')
    assert crowd([run]) == ""
    assert crowd([]) == ""
