"""Look at a node of a cluster from the inside, and write down what is there.

``python3 node_look.py QUESTIONS FOLDER``: QUESTIONS is a JSON file, FOLDER one that all nodes of the job
share. Each node writes FOLDER/<number>.json. Node 0 listens on each of its interfaces, node 1 tries them
all; who does not know the job's secret is not answered. Runs by any Python from 3.6 on, since it is what
a node has.
"""

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import platform
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

PATIENCE_S = 40.0
"""How long the two nodes wait for each other."""
CONNECT_S = 4.0
SEND_S = 1.0
"""How long bytes are sent over each interface to see how fast it is."""
COMMAND_S = 20.0
NAMES_S = 10.0
CHUNK = b"\0" * (1 << 18)

_SIOCGIFADDR = 0x8915  # netdevice(7)
_NEW_USER = 0x10000000  # unshare(2)


def main(arguments: List[str]) -> int:
    """Look, and write."""
    with open(arguments[0], encoding="utf-8") as file:
        questions = json.load(file)
    folder, number = arguments[1], int(os.environ.get("ARGOSY_NODE") or 0)
    found = look(questions)
    if questions["nodes"] > 1:
        meeting = listening if number == 0 else connecting
        found["meeting"] = meeting(folder, found["interfaces"], questions)
    write(os.path.join(folder, "%d.json" % number), found)
    return 0


def write(path: str, content: Dict[str, Any]) -> None:
    """Write a file at once."""
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(temporary, path)


def look(questions: Dict[str, Any]) -> Dict[str, Any]:
    """Return what this node has."""
    name = socket.gethostname().partition(".")[0]
    return {
        "node": name,
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "system": system_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory_mib(),
        "interfaces": interfaces(),
        "suffixes": within(NAMES_S, addresses_of_suffixes, name, questions["suffixes"]) or {},
        "scratch": [scratch(folder) for folder in questions["scratch"] + scratch_variables()],
        "paths": {each: seen(each, writes) for each, writes in questions["paths"].items()},
        "commands": {name: told_by(command) for name, command in questions["commands"].items()},
        "absent": [each for each in questions["folders"] if not os.path.isdir(each)],
        "user_namespaces": has_user_namespaces(),
        "gpus": gpus(),
        "gpu_driver": first_line("/proc/driver/nvidia/version"),
        "fabrics": sorted(os.path.basename(each) for each in glob.glob("/sys/class/infiniband/*")),
        "outside": within(NAMES_S, outside, questions["outside"]) or {},
        "proxies": sorted(
            each for each in os.environ if each.lower() in ("http_proxy", "https_proxy")
        ),
        "pythons": os.environ.get("ARGOSY_PYTHONS", "").split("\n"),
        "unix": time.time(),
    }


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function does; None where it takes longer, as names may that nobody answers for."""
    results = []  # type: List[Any]
    asking = threading.Thread(target=lambda: results.append(function(*arguments)), daemon=True)
    asking.start()
    asking.join(seconds)
    return results[0] if results else None


def first_line(path: str) -> str:
    """Return the first line of a file; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def system_name() -> str:
    """Return the name of the distribution."""
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            rows = dict(line.strip().partition("=")[::2] for line in file)
        return rows.get("PRETTY_NAME", "").strip('"')
    except OSError:
        return ""


def memory_mib() -> int:
    """Return MiB of memory of the node."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        rows = dict(line.partition(":")[::2] for line in file)
    return int(rows["MemTotal"].split()[0]) // 1024


# ---- networks


def interfaces() -> List[Dict[str, Any]]:
    """Return the interfaces that have an IPv4 address and lead elsewhere."""
    found = []
    for _, name in socket.if_nameindex():
        address = address_of(name)
        if address and not address.startswith("127."):
            folder = "/sys/class/net/%s/" % name
            found.append(
                {
                    "name": name,
                    "address": address,
                    "infiniband": first_line(folder + "type") == "32",
                    "up": first_line(folder + "operstate") != "down",
                }
            )
    return found


def address_of(name: str) -> Optional[str]:
    """Return the IPv4 address of an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", name.encode()[:15])
        try:
            return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def addresses_of_suffixes(name: str, suffixes: List[str]) -> Dict[str, str]:
    """Return the suffixes with which this node's name has an address."""
    found = {}
    for each in suffixes:
        with contextlib.suppress(OSError):
            found[each] = str(socket.getaddrinfo(name + each, None, socket.AF_INET)[0][4][0])
    return found


def listening(
    folder: str, found: List[Dict[str, Any]], questions: Dict[str, Any]
) -> Dict[str, Any]:
    """Let the other node try all interfaces; return when it has."""
    servers = {}
    for each in found:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind((each["address"], 0))
        server.listen(8)
        servers[each["name"]] = server
        serving = threading.Thread(target=serve, args=(server, questions["secret"]), daemon=True)
        serving.start()
    places = {name: server.getsockname()[:2] for name, server in servers.items()}
    write(os.path.join(folder, "listening.json"), {"places": places})
    other = os.path.join(folder, "1.json")
    wait_for(other)
    return {"other_wrote": os.path.exists(other)}


def serve(server: socket.socket, secret: str) -> None:
    """Answer who knows the secret: the time of this node, then bytes for a second."""
    while True:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(CONNECT_S)
            if read_exactly(connection, len(secret)) != secret.encode():
                continue
            connection.sendall(struct.pack("d", time.time()))
            until = time.monotonic() + SEND_S
            while time.monotonic() < until:
                connection.sendall(CHUNK)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Return as many bytes; fewer where the other ends before. Raises OSError."""
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            break
        content += more
    return content


def connecting(
    folder: str, found: List[Dict[str, Any]], questions: Dict[str, Any]
) -> Dict[str, Any]:
    """Try to reach node 0 over each interface that both have."""
    path = os.path.join(folder, "listening.json")
    if not wait_for(path):
        return {"problem": "node 0 did not begin to listen, or its files are not seen here"}
    with open(path, encoding="utf-8") as file:
        places = json.load(file)["places"]
    own = {each["name"]: each["address"] for each in found}
    return {
        "interfaces": {
            name: try_interface(own[name], tuple(place), questions["secret"])
            for name, place in places.items()
            if name in own
        }
    }


def try_interface(own: str, place: Tuple[str, int], secret: str) -> Dict[str, Any]:
    """Return how fast bytes come from a place, and how far its clock is ahead; or what is wrong."""
    try:
        began = time.monotonic()
        with socket.create_connection(place, CONNECT_S, (own, 0)) as connection:
            connected = time.monotonic() - began
            asked = time.time()
            connection.sendall(secret.encode())
            told = read_exactly(connection, 8)
            answered = time.time()
            if len(told) < 8:
                return {"problem": "the connection ended"}
            began, count = time.monotonic(), 0
            while True:
                got = len(connection.recv(1 << 20))
                if not got:
                    break
                count += got
            seconds = time.monotonic() - began
            ahead = struct.unpack("d", told)[0] - (asked + answered) / 2
            return {
                "connect_s": connected,
                "bytes_per_s": count / max(seconds, 1e-6),
                "clock_ahead_s": ahead,
                "clock_within_s": (answered - asked) / 2,
            }
    except OSError as problem:
        return {"problem": problem.strerror or str(problem)}


def wait_for(path: str) -> bool:
    """Wait until a file is there; whether it is."""
    until = time.monotonic() + PATIENCE_S
    while not os.path.exists(path) and time.monotonic() < until:
        # Some network file systems show a new file when its folder is read.
        os.listdir(os.path.dirname(path))
        time.sleep(0.1)
    return os.path.exists(path)


# ---- folders


def scratch_variables() -> List[str]:
    """Return variables of this job that name folders for temporary files."""
    words = ("SCRATCH", "TMP", "JOBFS", "LOCAL")
    return sorted(
        "$" + name
        for name, value in os.environ.items()
        if any(word in name for word in words) and value.startswith("/") and "ARGOSY" not in name
    )


def scratch(written: str) -> Dict[str, Any]:
    """Return what a folder is good for; `written` may hold variables."""
    folder = os.path.expandvars(written)
    found = {"written": written, "folder": folder}  # type: Dict[str, Any]
    if "$" in folder or not os.path.isdir(folder):
        return found
    kind, options = mount_of(folder)
    size = os.statvfs(folder)
    found.update(
        kind=kind,
        size_mib=size.f_blocks * size.f_frsize >> 20,
        free_mib=size.f_bavail * size.f_frsize >> 20,
    )
    own = ""
    try:
        own = tempfile.mkdtemp(prefix="argosy-look-", dir=folder)
        found.update(writable=True, runs_programs="noexec" not in options and runs(own))
    except OSError as problem:
        found.update(writable=False, problem=problem.strerror or str(problem))
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)
    return found


def seen(folder: str, writes: bool) -> str:
    """Return what is wrong with a folder that is needed here; empty where nothing is."""
    if not os.path.isdir(folder):
        return "is not there"
    if writes:
        try:
            os.rmdir(tempfile.mkdtemp(prefix=".argosy-look-", dir=folder))
        except OSError as problem:
            return "cannot be written to: %s" % (problem.strerror or problem)
    return ""


def told_by(command: List[str]) -> Dict[str, Any]:
    """Return how a program ends here, and what it says last."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        return {"status": -1, "said": str(problem)}
    return {"status": done.returncode, "said": done.stdout.decode("utf-8", "replace")[-2000:]}


def runs(folder: str) -> bool:
    """Whether a program in this folder can be started."""
    path = os.path.join(folder, "program")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, stat.S_IRWXU)
    try:
        return subprocess.call([path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def mount_of(folder: str) -> Tuple[str, List[str]]:
    """Return the kind of file system that a folder lies on, and its options."""
    real, best = os.path.realpath(folder), ("", "", "")
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, place, kind, options = line.split(" ")[:4]
            place = place.replace("\\040", " ")
            inside = real == place or real.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= len(best[0]):
                best = (place, kind, options)
    return best[1], best[2].split(",")


# ---- containers, GPUs, the world


def has_user_namespaces() -> bool:
    """Whether an ordinary process may make a user namespace here."""
    child = os.fork()
    if child == 0:
        library = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if library.unshare(_NEW_USER) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def gpus() -> List[str]:
    """Return the GPUs that this job sees, as their driver names them."""
    amd = glob.glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id")
    of_amd = ["AMD GPU %s" % first_line(each) for each in amd if first_line(each) not in ("", "0")]
    program = shutil.which("nvidia-smi")
    if not program:
        return of_amd
    try:
        said = subprocess.check_output(
            [program, "-L"], stderr=subprocess.DEVNULL, timeout=COMMAND_S
        )
    except (OSError, subprocess.SubprocessError):
        return of_amd
    return [line.strip() for line in said.decode("utf-8", "replace").splitlines()] + of_amd


def outside(places: List[List[Any]]) -> Dict[str, str]:
    """Return for each `[host, port]` an empty text where it answers, and else what is wrong."""
    found = {}
    for host, port in places:
        try:
            socket.create_connection((host, port), CONNECT_S).close()
            found[host] = ""
        except OSError as problem:
            found[host] = problem.strerror or str(problem)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
