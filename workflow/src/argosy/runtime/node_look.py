"""Survey a node of a cluster from the inside.

``python3 node_look.py QUESTIONS FOLDER``: QUESTIONS is a JSON file, FOLDER is shared by all nodes of the
job. Each node writes FOLDER/<number>.json. All nodes listen on each of their interfaces and connect to
all others; node 1 measures the speed of node 0. Peers without the job's secret get no answer. Runs on
Python 3.6 and later, since it uses the node's own Python.
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

if not __package__:  # started by its path, with -I
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import started_by_path

    __package__ = started_by_path.PACKAGE

from .contract.files import write_json

PATIENCE_S = 40.0
"""Seconds for which nodes wait for each other."""
CONNECT_S = 4.0
SEND_S = 1.0
"""Seconds of sending over each interface to measure its speed."""
COMMAND_S = 20.0
SHOWN_S = 10.0
"""Seconds for a shared file system to show a new file."""
MARK = ".argosy-look-"
NAMES_S = 10.0
CHUNK = b"\0" * (1 << 18)

_SIOCGIFADDR = 0x8915  # netdevice(7)
_NEW_USER = 0x10000000  # unshare(2)


def main(arguments: List[str]) -> int:
    with open(arguments[0], encoding="utf-8") as file:
        questions = json.load(file)
    folder, number = arguments[1], int(os.environ.get("ARGOSY_NODE") or 0)
    nodes = int(os.environ.get("ARGOSY_NODES") or questions["nodes"])
    found = look(questions, number)
    found.update(number=number, nodes=nodes)
    there = []  # type: List[int]
    if nodes > 1:
        there, found["meeting"] = meet(folder, number, nodes, found, questions["secret"])
    write_json(os.path.join(folder, "%d.json" % number), found)
    # Slower nodes still try to reach this one.
    wait_for_all(folder, there, "%d.json")
    return 0


def look(questions: Dict[str, Any], number: int) -> Dict[str, Any]:
    name = socket.gethostname().partition(".")[0]
    return {
        "node": name,
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "system": system_name(),
        "interfaces": interfaces(),
        "suffixes": within(NAMES_S, addresses_of_suffixes, name, questions["suffixes"]) or {},
        "scratch": [scratch(folder) for folder in questions["scratch"] + scratch_variables()],
        "paths": {
            each: seen(each, writes, questions, number)
            for each, writes in questions["paths"].items()
        },
        "commands": {name: told_by(command) for name, command in questions["commands"].items()},
        "absent": [each for each in questions["folders"] if not os.path.isdir(each)],
        "user_namespaces": has_user_namespaces(),
        "gpus": gpus(),
        "gpu_driver": first_line("/proc/driver/nvidia/version"),
        "fabrics": sorted(os.path.basename(each) for each in glob.glob("/sys/class/infiniband/*")),
        "outside": within(NAMES_S, outside, questions["outside"]) or {},
        "pythons": os.environ.get("ARGOSY_PYTHONS", "").split("\n"),
    }


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; return None after a timeout, as in name look-ups without an answer."""
    results = []  # type: List[Any]
    asking = threading.Thread(target=lambda: results.append(function(*arguments)), daemon=True)
    asking.start()
    asking.join(seconds)
    return results[0] if results else None


def first_line(path: str) -> str:
    """Return the first line of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def system_name() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            rows = dict(line.strip().partition("=")[::2] for line in file)
        return rows.get("PRETTY_NAME", "").strip('"')
    except OSError:
        return ""


# ---- networks


def interfaces() -> List[Dict[str, Any]]:
    """Return the interfaces with an IPv4 address, except loopback."""
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
                }
            )
    return found


def address_of(name: str) -> Optional[str]:
    """Return the IPv4 address of an interface, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", name.encode()[:15])
        try:
            return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def addresses_of_suffixes(name: str, suffixes: List[str]) -> Dict[str, str]:
    """Return the addresses of this node's name with each suffix that has one."""
    found = {}
    for each in suffixes:
        with contextlib.suppress(OSError):
            found[each] = str(socket.getaddrinfo(name + each, None, socket.AF_INET)[0][4][0])
    return found


def meet(
    folder: str, number: int, nodes: int, found: Dict[str, Any], secret: str
) -> Tuple[List[int], Dict[str, Any]]:
    """Listen, and connect to all other nodes; return the listening nodes, and the results."""
    places = listen(found["interfaces"], secret)
    write_json(
        os.path.join(folder, "listening-%d.json" % number),
        {"node": found["node"], "places": places},
    )
    others = [each for each in range(nodes) if each != number]
    there = wait_for_all(folder, others, "listening-%d.json")
    own = {each["name"]: each["address"] for each in found["interfaces"]}
    peers = {}  # type: Dict[int, Dict[str, Any]]
    for other in there:
        with open(os.path.join(folder, "listening-%d.json" % other), encoding="utf-8") as file:
            peers[other] = json.load(file)
    tried = try_all(own, peers, secret)
    meeting = {"peers": {peers[other]["node"]: tried[other] for other in peers}}  # type: Dict[str, Any]
    if number == 1 and 0 in peers:
        # After the other attempts, and one at a time, so that each measurement has the whole network.
        meeting["interfaces"] = {
            name: try_interface(own[name], peers[0]["places"][name], secret, SEND_S)
            for name in tried[0]
        }
    missing = [str(other) for other in others if other not in there]
    if missing:
        meeting["problem"] = (
            "node %s of the job did not begin to listen, or its files are not seen on %s"
            % (" and ".join(missing), found["node"])
        )
    return there, meeting


def listen(found: List[Dict[str, Any]], secret: str) -> Dict[str, Any]:
    """Start to listen on each interface; return their addresses and ports."""
    places = {}
    for each in found:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind((each["address"], 0))
        server.listen(64)
        places[each["name"]] = server.getsockname()[:2]
        threading.Thread(target=serve, args=(server, secret), daemon=True).start()
    return places


def try_all(
    own: Dict[str, str], peers: Dict[int, Dict[str, Any]], secret: str
) -> Dict[int, Dict[str, str]]:
    """Connect to all at once; return the error by node and interface, empty on success."""
    found = {}  # type: Dict[int, Dict[str, str]]
    trying = []

    def note(other: int, name: str, place: List[Any]) -> None:
        found[other][name] = try_interface(own[name], place, secret, 0).get("problem", "")

    for other, peer in peers.items():
        found[other] = {name: "not tried to the end" for name in peer["places"] if name in own}
        for name in found[other]:
            way = (other, name, peer["places"][name])
            trying.append(threading.Thread(target=note, args=way, daemon=True))
    for each in trying:
        each.start()
    for each in trying:
        each.join(3 * CONNECT_S)
    return found


def serve(server: socket.socket, secret: str) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection, secret), daemon=True).start()


def answer(connection: socket.socket, secret: str) -> None:
    """Check the secret, send this node's time, then bytes for `SEND_S` seconds."""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(CONNECT_S)
        if read_exactly(connection, len(secret)) != secret.encode():
            return
        connection.sendall(struct.pack("d", time.time()))
        until = time.monotonic() + SEND_S
        while time.monotonic() < until:
            connection.sendall(CHUNK)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; fewer if the connection ends. Raises OSError."""
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        if not more:
            break
        content += more
    return content


def try_interface(own: str, place: List[Any], secret: str, seconds: float) -> Dict[str, Any]:
    """Measure the speed and the clock of a peer; return the `problem` if that fails."""
    try:
        with socket.create_connection((place[0], place[1]), CONNECT_S, (own, 0)) as connection:
            asked = time.time()
            connection.sendall(secret.encode())
            told = read_exactly(connection, 8)
            answered = time.time()
            if len(told) < 8:
                return {"problem": "the connection ended"}
            began, count = time.monotonic(), 0
            while time.monotonic() < began + seconds:
                got = len(connection.recv(1 << 20))
                if not got:
                    break
                count += got
            took = time.monotonic() - began
            ahead = struct.unpack("d", told)[0] - (asked + answered) / 2
            return {
                "bytes_per_s": count / max(took, 1e-6),
                "clock_ahead_s": ahead,
                "clock_within_s": (answered - asked) / 2,
            }
    except OSError as problem:
        return {"problem": problem.strerror or str(problem)}


def wait_for_all(folder: str, nodes: List[int], name: str) -> List[int]:
    """Wait until each node has written its file or given up; return the nodes with a file."""
    until = time.monotonic() + PATIENCE_S
    while True:
        # On some network file systems, listing a folder shows its new files.
        names = os.listdir(folder)
        there = [node for node in nodes if name % node in names]
        given_up = [node for node in nodes if "%d.problem" % node in names]
        if {*there, *given_up} == {*nodes} or time.monotonic() > until:
            return there
        time.sleep(0.1)


# ---- folders


def scratch_variables() -> List[str]:
    """Return variables of this job that may name folders for temporary files."""
    words = ("SCRATCH", "TMP", "JOBFS", "LOCAL")
    return sorted(
        "$" + name
        for name, value in os.environ.items()
        if any(word in name for word in words) and value.startswith("/") and "ARGOSY" not in name
    )


def scratch(written: str) -> Dict[str, Any]:
    """Return size, kind and permissions of a folder; `written` may contain variables."""
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


def seen(folder: str, writes: bool, questions: Dict[str, Any], number: int) -> str:
    """Return the problem of a required folder; empty if it has none.

    It must contain the login node's mark; this node writes its own mark for the login node to check.
    """
    if not os.path.isdir(folder):
        return "is missing"
    mark = os.path.join(folder, MARK + questions["secret"])
    if folder in questions["marked"] and not shows(mark, questions["secret"]):
        return "is not the login node's folder of this name"
    if writes:
        try:
            with open("%s-%d" % (mark, number), "w", encoding="utf-8") as file:
                file.write(questions["secret"])
        except OSError as problem:
            return "cannot be written to: %s" % (problem.strerror or problem)
    return ""


def shows(path: str, content: str) -> bool:
    """Return whether a file has a content within `SHOWN_S` seconds."""
    until = time.monotonic() + SHOWN_S
    while first_line(path) != content:
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def told_by(command: List[str]) -> Dict[str, Any]:
    """Run a command; return its exit status and the end of its output."""
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
    """Return whether a program in this folder can be executed."""
    path = os.path.join(folder, "program")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, stat.S_IRWXU)
    try:
        return subprocess.call([path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def mount_of(folder: str) -> Tuple[str, List[str]]:
    """Return the type and mount options of a folder's file system."""
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
    """Return whether unprivileged processes may create user namespaces."""
    child = os.fork()
    if child == 0:
        library = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if library.unshare(_NEW_USER) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def gpus() -> List[str]:
    """Return the names of the GPUs that this job sees."""
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
    """Connect to each `[host, port]`; return the error by host, empty on success."""
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
