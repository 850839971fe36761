"""Train nothing: sixty steps in two seconds, and a score that is the same on any machine."""

import os
import time

import argosy_steps

steps = argosy_steps.Recorder()
for _ in range(60):
    with steps.step(samples=8):
        time.sleep(0.03)
steps.metric("test_accuracy", 0.9 + int(os.environ["RANK"]) / 100)
