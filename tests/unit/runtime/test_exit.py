"""A rank's Python waits at its exit for threads like Gloo's; a thread with that name stands in."""

import subprocess

from agent_job import PYTHON, RUNTIME

PROGRAM = """
import hashlib, sys, threading, time

def work():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as name:
        name.write("pt_gloo_runloop")
    named.set()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        hashlib.sha256(bytes(1 << 20))
    print("given back", flush=True)
    threading.Event().wait()

sys.modules["torch"] = sys
named = threading.Event()
threading.Thread(target=work, daemon=True).start()
named.wait()
"""


def test_a_rank_ends_after_the_threads_of_gloo_have_come_to_rest() -> None:
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM],
        env={"PYTHONPATH": str(RUNTIME / "python")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "given back\n"
