"""PMI-1 server, from which MPI libraries of the MPICH family get ranks and addresses.

Protocol: lines of `cmd=NAME key=value …`, as MPICH 5.0.2 sends them (src/pmi/maint/pmi-1.1.txt).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from ..coordination.failure import ABORT, EXIT, Failure, Finished
from ..settings import Settings
from ..transport.http_server import listen
from ..transport.peers import Endpoint, Owners
from .local_server import ADDRESS
from .store import Rendezvous

_KEY, _VALUE = 64, 4096  # bytes
_LINE = 2 * _VALUE
# Seconds between checks for other nodes while all ranks of this node wait.
_LOOK = 0.01
_REFUSED = ("spawn", "publish_name", "unpublish_name", "lookup_name")
_Words = Mapping[str, str]
_UNASKED = (
    "it ended without contacting PMI: its program uses no MPI, or the image's MPI is not "
    "of the MPICH family; RUN pip install mpich mpi4py installs one"
)
_EARLY = "it ended with exit code 0 without MPI_Init, which other ranks called"
_UNFINISHED = "it ended with exit code 0 without MPI_Finalize, so other ranks may wait for it"


@dataclass
class _Client:
    """A connection to the server; `rank` is None before its init. `spawns`: it requests more ranks."""

    rank: int | None = None
    spawns: bool = False


class PmiServer(threading.Thread):
    """Serves this node's ranks until the process ends. Raises OSError if listening fails.

    A node's entries reach the others in the order of their puts. `failed` is called with the failure of
    a rank that calls MPI_Abort, since MPI lets the rank continue.
    """

    def __init__(
        self,
        settings: Settings,
        rendezvous: Rendezvous,
        say: Callable[[str], None],
        failed: Callable[[Failure], None],
    ) -> None:
        super().__init__(name="pmi", daemon=True)
        per_node = settings.ranks_per_node
        self._settings = settings
        self._own = range(settings.node * per_node, (settings.node + 1) * per_node)
        self._rendezvous = rendezvous
        self._say = say
        self._failed = failed
        self._listener = listen((ADDRESS, 0))
        self.endpoint: Endpoint = self._listener.getsockname()
        """Address of the server."""
        self._owners = Owners()
        self._present: set[int] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._asked: set[int] = set()
        self._finalized: set[int | None] = set()
        self._refused: dict[int | None, str] = {}
        self._constant = {
            # With a later version, clients use another protocol.
            "init": "response_to_init pmi_version=1 pmi_subversion=1",
            "get_maxes": f"maxes kvsname_max={_KEY} keylen_max={_KEY} vallen_max={_VALUE}",
            "get_appnum": "appnum appnum=0",
            "get_my_kvsname": f"my_kvsname kvsname={_job(settings)}",
            "get_universe_size": f"universe_size size={settings.ranks}",
        }
        self._commands: Mapping[str, Callable[[_Client, _Words], Sequence[str]]] = {
            "put": self._put,
            "get": self._get,
            "finalize": self._finalize,
            "abort": self._abort,
            **dict.fromkeys(_REFUSED, self._refuse),
        }

    def clean(self) -> None:
        """Remove shared memory of killed MPICH ranks; call this after all ranks have ended.

        MPICH 4 and 5 name the files by a hash (FNV-1a) of the job's name, and by the node.
        """
        number = 0x811C9DC5
        for byte in _job(self._settings).encode():
            number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
        for kind in ("shm", "vci"):
            with contextlib.suppress(OSError):
                os.unlink(f"/dev/shm/mpich_{kind}_{number:x}_{self._settings.node}")

    def failure(self, ended: Finished) -> Failure | None:
        """Return the failure of a rank that ended with exit code 0 without MPI_Finalize, if any."""
        rank = ended.rank
        if self._settings.ranks == 1 or rank in self._finalized:
            return None
        unasked = _EARLY if self._asked else _UNASKED
        cause = _UNFINISHED if rank in self._asked else unasked
        return Failure(ended.node, rank, cause, ended.at, EXIT)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._talk, sock=self._listener, limit=_LINE)
        await server.serve_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a client until it ends."""
        client = _Client()
        try:
            is_ours = self._owners.is_ours(writer.get_extra_info("peername"), self.endpoint)
            while is_ours and (line := await _read_line(reader)):
                answers = await self._take(client, line)
                writer.write("".join(f"{answer}\n" for answer in answers).encode("latin-1"))
                await writer.drain()
        except OSError:
            pass  # it has ended
        except (ValueError, MemoryError) as error:
            who = "a program" if client.rank is None else f"rank {client.rank}"
            why = error if isinstance(error, ValueError) else "the ranks have stored too much data"
            self._say(f"refused a request of {who} to the node's PMI server: {why}")
        finally:
            if client.rank is not None:
                self._present.remove(client.rank)
            writer.close()

    async def _take(self, client: _Client, line: str) -> Sequence[str]:
        """Return the answer to a line. Raises ValueError."""
        # The request for more ranks has several lines: mcmd=spawn … endcmd.
        if client.spawns or line.startswith("mcmd="):
            client.spawns = line != "endcmd"
            line = "cmd=spawn"
            if client.spawns:
                return ()
        # The value is last and may contain any character.
        head, _, value = line.partition(" value=")
        words = {name: text for name, _, text in (word.partition("=") for word in head.split())}
        command = words.get("cmd", "")
        if command == "initack":
            return self._place(client, words.get("pmiid", ""))
        if client.rank is None:
            raise ValueError("it does not speak PMI-1")
        if command == "barrier_in":
            await self._meet()
            return ("cmd=barrier_out rc=0",)
        if command in self._constant:
            return (f"cmd={self._constant[command]} rc=0",)
        if command not in self._commands:
            raise ValueError(f"PMI-1 has no command {command[:40]!r}")
        return self._commands[command](client, {**words, "value": value})

    def _place(self, client: _Client, text: str) -> Sequence[str]:
        rank = int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
        if rank not in self._own or client.rank is not None:
            raise ValueError(f"it claims to be rank {text[:40]!r}")
        if rank in self._present:
            raise ValueError(
                f"a program that rank {rank} started calls MPI_Init, too: start it without PMI_PORT"
            )
        client.rank = rank
        self._present.add(rank)
        self._asked.add(rank)
        self._finalized.discard(rank)
        places = (f"size={self._settings.ranks}", f"rank={rank}", "debug=0")
        return ("cmd=initack rc=0", *(f"cmd=set {place}" for place in places))

    def _put(self, client: _Client, words: _Words) -> Sequence[str]:
        self._rendezvous.put(f"/pmi/:{words.get('key')}", words["value"].encode("latin-1"))
        return ("cmd=put_result rc=0",)

    def _get(self, client: _Client, words: _Words) -> Sequence[str]:
        found = self._rendezvous.get(f"/pmi/:{words.get('key')}")
        if words.get("key") == "PMI_process_mapping":
            # All nodes have the same number of ranks, in order.
            found = f"(vector,(0,{self._settings.nodes},{len(self._own)}))".encode()
        if found is None:
            return ("cmd=get_result rc=-1 msg=key_not_found value=unknown",)
        return (f"cmd=get_result rc=0 value={found.decode('latin-1')}",)

    def _finalize(self, client: _Client, words: _Words) -> Sequence[str]:
        self._finalized.add(client.rank)
        return ("cmd=finalize_ack rc=0",)

    def _abort(self, client: _Client, words: _Words) -> Sequence[str]:
        cause = f"it called MPI_Abort with exit code {words.get('exitcode', '1')}"
        refused = self._refused.get(client.rank)
        cause += f"; {refused}" if refused else ""
        self._failed(Failure(self._settings.node, client.rank, cause, time.time(), ABORT))
        return ()

    def _refuse(self, client: _Client, words: _Words) -> Sequence[str]:
        command = words["cmd"]
        refused = (
            f"{command} of MPI is refused: `nodes` and `ranks_per_node` set the number of ranks"
        )
        self._refused[client.rank] = refused
        self._say(f"rank {client.rank}: {refused}")
        return (f"cmd={command.partition('_')[0]}_result rc=-1 msg=not_supported",)

    async def _meet(self) -> None:
        """Wait in a barrier for all ranks of this node, then for all nodes."""
        here = asyncio.get_running_loop().create_future()
        self._waiting.append(here)
        if len(self._waiting) < len(self._own):
            await here
            return
        waiting, self._waiting = self._waiting, []
        # Put after this node's values, so nodes that see it have the values.
        self._rendezvous.put(f"/pmi.barrier/{self._settings.node}", b"")
        for node in range(self._settings.nodes):
            while self._rendezvous.get(f"/pmi.barrier/{node}") is None:
                await asyncio.sleep(_LOOK)
        # The next barrier uses the next generation of the scope.
        self._rendezvous.delete(f"/pmi.barrier/{self._settings.node}")
        self._rendezvous.met.update(self._own)
        for each in waiting:
            each.set_result(None)


async def _read_line(reader: asyncio.StreamReader) -> str:
    """Return a line; empty at the end. Raises ValueError if it is too long."""
    try:
        line = await reader.readline()
    except ValueError:
        raise ValueError("it does not speak PMI-1") from None
    return line[:-1].decode("latin-1") if line.endswith(b"\n") else ""


def _job(settings: Settings) -> str:
    """Return a unique name of this attempt; MPICH names files in /dev/shm after it."""
    return hashlib.sha256(f"{settings.token} {settings.attempt}".encode()).hexdigest()[:32]
