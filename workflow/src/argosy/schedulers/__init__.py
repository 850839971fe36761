"""Schedulers: who runs batch scripts. Each is a folder that has what `BatchSystem` asks for."""

from argosy.schedulers.batch_system import BatchSystem, find_batch_system

__all__ = ["BatchSystem", "find_batch_system"]
