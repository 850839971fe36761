"""Two files of the run's folder that the head looks at: a warning, and who the run belongs to.

The batch script makes the first when the scheduler warns it; claim.py writes the second when the run is
started again. Files reach the agents through every launcher and container; signals do not.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable

from ...contract import layout
from ..settings import Settings
from .failure import OTHER, Failure

_INTERVAL = 1.0  # seconds; one agent of the job looks at two files


class Watch(threading.Thread):
    """Looks until the process ends.

    Args:
        settings: whose run it is.
        warned: called once, in this thread, when the job should save its state and end.
        superseded: called once when the run belongs to another attempt.
    """

    def __init__(
        self,
        settings: Settings,
        warned: Callable[[], None],
        superseded: Callable[[Failure], None],
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._attempt = settings.attempt
        # The job's script makes the one, an agent that was sent SIGTERM the other.
        self._warnings = (settings.warning, settings.warned)
        self._owner = os.path.join(settings.run_dir, layout.OWNER)
        self._warned: Callable[[], None] | None = warned
        self._superseded = superseded

    def run(self) -> None:
        """Run the thread."""
        while True:
            if self._warned and any(map(os.path.exists, self._warnings)):
                self._warned()
                self._warned = None
            owner = self._read_owner()
            if owner not in (None, self._attempt):
                cause = f"superseded: the run was started again as {owner}"
                self._superseded(Failure(0, None, cause, time.time(), OTHER))
                return
            time.sleep(_INTERVAL)

    def _read_owner(self) -> str | None:
        try:
            with open(self._owner, encoding="utf-8") as file:
                return file.read().strip() or None
        except OSError:
            return None
