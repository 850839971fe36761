"""Exchanges by mpi4py; with a word as its argument, one rank then does something else."""

import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
here = world.Split_type(MPI.COMM_TYPE_SHARED)
assert world.allreduce(world.rank + 1) == world.size * (world.size + 1) // 2
assert here.rank == int(os.environ["MPI_LOCALRANKID"])
assert here.size == int(os.environ["MPI_LOCALNRANKS"])
assert here.allreduce(int(os.environ["ARGOSY_NODE"])) == here.size * int(os.environ["ARGOSY_NODE"])
data = bytearray(4 << 20)
world.Bcast(data)
world.Barrier()
if not world.rank:
    print("100.0 samples/s", flush=True)
print(f"rank {world.rank} of {world.size}: {here.size} on the node", flush=True)

does = sys.argv[1] if len(sys.argv) > 1 else ""
if does == "spawn":
    try:
        MPI.COMM_SELF.Spawn(sys.executable)
    except MPI.Exception:
        print("no more ranks", flush=True)
if does == "late":
    # Connections that last for less may not be seen.
    time.sleep(1)
if world.rank == world.size - 1:
    if does == "abort":
        world.Abort(5)
    if does == "fail":
        raise ValueError(does)
    if does == "leave":
        os._exit(0)
    if does == "late":
        # The others wait in MPI_Finalize, or with Open MPI they end.
        time.sleep(1)
    if does == "wait":
        time.sleep(600)
if does in ("abort", "fail", "leave", "wait"):
    world.Barrier()
