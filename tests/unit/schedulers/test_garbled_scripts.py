"""Batch scripts in which anything may stand anywhere: a study that can be read, or one line."""

import random
import time
from pathlib import Path

import pytest
from fuzzing import fuzz, write
from garbled import ESCAPE, garbled_text

from argosy.results.hidden_values import SECRET_NAME
from argosy.schedulers.slurm.user_script.conversion import convert
from argosy.shipped.new_project import config_text
from argosy.site.models import read_site
from argosy.study.config import Source, parse_config
from argosy.yaml_file import parse_yaml

SCRIPTS = Path(__file__).parent / "user_scripts"
CASES = 1_000
EVERYTHING = """\
#!/bin/bash -l
#SBATCH --job-name="a b" -N 2 --ntasks-per-node=4
#SBATCH --gres=gpu:a100:4
#SBATCH -t 1-02:03:04 # a comment
set -euo pipefail
module load python/3.11
export A=1 B="two $A" C=$(hostname) D=${A:-x}
cd "$SLURM_SUBMIT_DIR/nlp"
if [ -n "$A" ]; then echo yes; else export E=2; fi
for i in 1 2; do echo $i; done
f() { srun --ntasks=8 hostname; }
cat <<'EOF' > machines
$HOSTS
EOF
case $A in 1) x=1;; *) x=2;; esac
srun --ntasks=8 apptainer exec --nv -B /data:/data image.sif bash -c 'python3 solve.py --lr "$LR"' \\
  2>&1 | tee log.txt && echo "done" &
wait
mpirun -np $SLURM_NTASKS -x A python solve.py --array "${ARGS[@]}"
torchrun --nnodes=$SLURM_NNODES --nproc_per_node 4 vae.py --epochs $((2*3))
"""
PIECES = (
    *"\n\t\0\x85\ufeff\u202e\ud7ff#\\$=,{}*/~.['\"`;&|()<>!",
    "\\\n", "${", "${A", "${A:-${B}}", "$(", "$((", "<<E\n", "<<-'E'\n", "&&", "||", ";;", "2>&1",
    "#SBATCH ", "--", "-N", "--nodes=", "--time=", "--mem=", "--gres=gpu:", "--array=1-9%2", "srun ", "if ",
    "then\n", "fi\n", "do\n", "done\n", "case ", "esac\n", "f() {", "}\n", "eval ", "bash -c ", "export ",
    "cd ", "source ", "module load ", "env ", "torchrun ", "mpirun -np ", "python3 ", "--image ", "../",
    "/", "9" * 400, "9" * 5000, "a" * 300, "1-", "::", ESCAPE, "A_TOKEN=x ",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_scripts_become_a_study_or_one_line(tmp_path: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(SCRIPTS.glob("*.sbatch"))]
    texts += [EVERYTHING] * len(texts)
    for name in ("solve.py", "nlp/ddp_train.py", "vae.py", "env/bin/activate"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import torch.distributed\n")

    def is_converted(chance: random.Random) -> bool:
        write(tmp_path / "job.sbatch", garbled_text(chance.choice(texts), PIECES, chance))
        found = convert(tmp_path / "job.sbatch", tmp_path, "there", None, SECRET_NAME)
        values = parse_yaml(config_text({found.name: found.experiment}, ""), "config.yaml")
        for name, text in found.site_files.items():
            assert "\0" not in text
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            write(tmp_path / name, text)
        read_site(tmp_path / "slurm/there")
        parse_config(values, [Source("config.yaml", values)])
        return True

    fuzz(is_converted, CASES)


@pytest.mark.parametrize(
    "line",
    [
        "export A=" + "${B:-" * 2000 + "}" * 2000,
        "bash -c '" + "${B:-" * 2000 + "}" * 2000 + "'",
        "bash -c " + "eval " * 2000 + "x",
        "echo ${A\n" + "echo $(x) \"$B\" 'c'\n" * 3000,
    ],
)
def test_a_script_without_end_is_read_in_seconds(tmp_path: Path, line: str) -> None:
    (tmp_path / "solve.py").touch()
    (tmp_path / "job.sbatch").write_text(f"#!/bin/bash\npython3 solve.py\n{line}\n")
    began = time.process_time()
    assert convert(tmp_path / "job.sbatch", tmp_path, "there", None, SECRET_NAME).left
    assert time.process_time() - began < 30
