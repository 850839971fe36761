"""Times of gradients, with hooks on parameters that behave like PyTorch's."""

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from agent_job import PYTHON, RUNTIME

PROGRAM = """
import time, argosy_layers, argosy_steps

class Hook:
    def __init__(self, hooks, hook): self.hooks, self.hook = hooks, hook
    def remove(self): self.hooks.remove(self.hook)

class Parameter:
    requires_grad, is_cuda = True, False
    def __init__(self, elements): self.elements, self.hooks = elements, []
    def numel(self): return self.elements
    def element_size(self): return 4
    def register_post_accumulate_grad_hook(self, hook):
        self.hooks.append(hook)
        return Hook(self.hooks, hook)

stem, head, frozen = Parameter(1000), Parameter(10), Parameter(5)
frozen.requires_grad = False
steps = argosy_steps.Recorder()
layers = argosy_layers.LayerTimes(steps, [("stem", stem), ("head", head), ("frozen", frozen)])
hooked = []
for number in range(12):
    with layers.backward():
        hooked.append(len(head.hooks))
        for parameter, seconds in ((head, 0.01), (stem, 0.02)):
            time.sleep(seconds)
            for hook in parameter.hooks: hook(parameter)
print(hooked)
"""


def run(path: Path | None) -> list[int]:
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(RUNTIME / "python")}
    if path:
        variables["ARGOSY_STEPS_FILE"] = str(path)
    command = [PYTHON, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    hooked: list[int] = json.loads(done.stdout)
    return hooked


def test_five_passes_are_watched_and_recorded_once(tmp_path: Path) -> None:
    assert run(tmp_path / "rank-0.steps") == [0] * 5 + [1] * 5 + [0] * 2
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in (tmp_path / "rank-0.jsonl").read_text().splitlines()
    ]
    (found,) = (line["layers"] for line in lines if line["kind"] == "layers")
    assert [(layer["name"], layer["bytes"]) for layer in found] == [("head", 40), ("stem", 4000)]
    head_s, stem_s = (layer["ready_s"] for layer in found)
    assert 0.01 <= head_s < stem_s
    assert stem_s >= 0.03


def test_outside_argosy_nothing_is_watched() -> None:
    assert run(None) == [0] * 12
