"""Programs that are silent for long, healthy ones and ones that hang: `silent_programs.py NAME SECONDS`.

Each function is a program of two ranks. It trains for two seconds, and is then silent for SECONDS, or
for ever. Those of `torch_` need torch.distributed, the others Horovod.
"""

import fcntl
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import argosy_steps
import torch

NAME, SECONDS = sys.argv[1], float(sys.argv[2])
RANK = int(os.environ["ARGOSY_RANK"])
USES_TORCH = NAME.startswith("torch_")
if USES_TORCH:
    import torch.distributed as dist
else:
    import horovod.torch as hvd


def meet():
    if USES_TORCH:
        dist.init_process_group("gloo")
    else:
        hvd.init()


def exchange():
    if USES_TORCH:
        dist.all_reduce(torch.ones(10))
    else:
        hvd.allreduce(torch.ones(10), name="gradient")


RECORDER = argosy_steps.Recorder()


def train():
    for _ in range(40):
        with RECORDER.step(samples=8):
            exchange()
            time.sleep(0.05)


def rank_0(work):
    """Let rank 0 work while the other waits for it."""
    meet()
    train()
    if RANK == 0:
        work(time.time() + SECONDS)
    exchange()


def go_on(end):
    """Agree on whether the time is over."""
    left = torch.tensor(float(time.time() < end))
    if USES_TORCH:
        dist.all_reduce(left, op=dist.ReduceOp.MIN)
    else:
        left = hvd.allreduce(left, name="left", op=hvd.Min)
    return bool(left)


# ---- healthy ones


def evaluation():
    meet(), train()
    end, values = time.time() + SECONDS, torch.ones(4_000_000)
    while go_on(end):
        hvd.allreduce(values, name="metric")


def small_exchanges_on_one_line():
    meet(), train()
    while hvd.allreduce(torch.tensor(time.time() < END).float(), name="left", op=hvd.Min): pass  # fmt: skip  # noqa: E701


def torch_evaluation():
    meet(), train()
    end, model = time.time() + SECONDS, torch.nn.Linear(256, 256)
    while go_on(end):
        result = model(torch.ones(512, 256)).detach()
        dist.all_gather([torch.empty_like(result) for _ in range(2)], result)


def torch_small_exchanges_on_one_line():
    meet(), train()
    left = torch.tensor(1.0)
    while left.fill_(float(time.time() < END)) is not None and dist.all_reduce(left, op=dist.ReduceOp.MIN) is None and left: pass  # fmt: skip  # noqa: E501, E701


def torch_broadcast_of_large_tensors():
    meet(), train()
    end, weights = time.time() + SECONDS, torch.ones(100_000_000)
    while go_on(end):
        dist.broadcast(weights, 0)


def broadcast_of_large_tensors():
    meet(), train()
    end, weights = time.time() + SECONDS, torch.ones(100_000_000)
    while go_on(end):
        hvd.broadcast(weights, 0, name="weights")


def torch_checkpoint_exchange():
    def write(end):
        with tempfile.TemporaryFile() as file:
            while time.time() < end:
                file.seek(0)
                file.write(os.urandom(1000))
                os.fsync(file.fileno())
                time.sleep(1)

    rank_0(write)


def torch_preparation_in_one_function():
    def prepare(end):
        number = 0
        while time.time() < end:
            number = (number * 1103515245 + 12345) % 2147483648

    rank_0(prepare)


def compilation():
    busy = "import time; end = time.time() + {}\nwhile time.time() < end: pass"
    rank_0(
        lambda end: subprocess.run([sys.executable, "-I", "-c", busy.format(SECONDS)], check=True)
    )


def code_that_holds_the_interpreter():
    def compute(end):
        while time.time() < end: sum(range(60_000_000))  # fmt: skip  # noqa: E701

    rank_0(compute)


def slow_file_system():
    path = tempfile.mktemp()
    os.mkfifo(path)
    if os.fork() == 0:
        os.setsid()
        os.environ.clear()
        time.sleep(4)
        with Path(path).open("wb", buffering=0) as file:
            for _ in range(int(SECONDS / 10)):
                file.write(b"x" * 64)
                time.sleep(10)
        os._exit(0)

    def read(end):
        with Path(path).open("rb", buffering=0) as file:
            while file.read(64): pass  # fmt: skip  # noqa: E701

    rank_0(read)


def torch_asks_for_a_lock():
    rank_0(lambda end: [time.sleep(5) for _ in iter(lambda: time.time() < end, False)])


def waits_for_a_locked_file():
    with tempfile.NamedTemporaryFile() as file:

        def hold():
            with Path(file.name).open() as mine:
                fcntl.flock(mine, fcntl.LOCK_EX)
                time.sleep(SECONDS + 6)

        holder = multiprocessing.Process(target=hold)
        if RANK == 0:
            holder.start()
        rank_0(lambda end: fcntl.flock(file, fcntl.LOCK_EX))


def torch_subprocess_that_waits_itself():
    rank_0(lambda end: subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {int(SECONDS / 10)} ]; do sleep 10; i=$((i+1)); done"], check=True))  # fmt: skip  # noqa: E501


def one_long_sleep():
    rank_0(lambda end: time.sleep(SECONDS))


def torch_uneven_epochs():
    def compute(end):
        values = torch.ones(200, 200)
        while time.time() < end:
            values = (values @ values).clamp(0, 1)

    rank_0(compute)


def download():
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        peer, _ = server.accept()
        for _ in range(int(SECONDS / 20)):
            peer.send(b"x" * 100)
            time.sleep(20)
        peer.close()

    if RANK == 0:
        threading.Thread(target=serve, daemon=True).start()

    def read(end):
        with socket.create_connection(server.getsockname()) as peer:
            while peer.recv(100):
                pass

    rank_0(read)


def torch_slow_loader():
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, n):
            time.sleep(SECONDS / 2)
            return torch.ones(1)

    rank_0(lambda end: list(torch.utils.data.DataLoader(Slow(), num_workers=1)))


def late_to_meet():
    print("loading", flush=True)
    while RANK == 0 and time.time() < END:
        time.sleep(3)
    meet(), train()


# ---- hangs


def hang_by_names():
    meet()
    for step in range(10**9):
        name = f"grad{step + (RANK if step >= 50 else 0)}"
        hvd.allreduce(torch.ones(10), name=name)
        print(f"{1000 + step / 100:.1f} img/s", flush=True)
        time.sleep(0.05)


def hang_by_a_left_out_allreduce():
    meet(), train()
    if RANK == 0:
        hvd.allreduce(torch.ones(1), name="flag")
    train()


def hang_of_a_stopped_rank():
    meet(), train()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    train()


def hang_by_a_loop():
    meet(), train()
    while RANK == 1:
        while True:
            pass
    train()


def torch_hang_of_a_loader():
    class Stuck(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, n):
            time.sleep(100_000)

    meet(), train()
    if RANK == 1:
        list(torch.utils.data.DataLoader(Stuck(), num_workers=2))
    train()


def hang_before_the_start():
    if RANK == 1:
        time.sleep(100_000)
    meet()


def torch_hang_before_the_start():
    if RANK == 1:
        threading.Event().wait()
    meet()


def hang_of_one_who_waits_for_one_that_ended():
    if RANK == 1:
        sys.exit()
    meet()


def torch_hang_of_a_sleeping_rank():
    meet(), train()
    if RANK == 1:
        time.sleep(100_000)
    train()


def torch_hang_by_two_operations():
    meet(), train()
    if RANK == 0:
        dist.recv(torch.ones(1), 1)
    else:
        dist.all_reduce(torch.ones(1))


def torch_hang_of_ddp():
    meet()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(10**9):
        if RANK == 1 and step == 30:
            time.sleep(100_000)
        model(torch.ones(4, 8)).sum().backward()
        print(f"{1000 + step / 100:.1f} img/s", flush=True)
        time.sleep(0.05)


END = time.time() + SECONDS + 8
if __name__ == "__main__":
    globals()[NAME]()
