"""Train nothing for 1.5 s, if the variable TOKEN has the expected value."""

import hashlib
import os
import sys
import time

import argosy_steps

if hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest() != sys.argv[1]:
    sys.exit("TOKEN is not what was asked for")
steps = argosy_steps.Recorder()
for _ in range(30):
    with steps.step(samples=8):
        time.sleep(0.05)
