"""Schedulers of batch scripts: each is a folder that implements `BatchSystem`."""

from argosy.schedulers.batch_system import BatchSystem, find_batch_system

__all__ = ["BatchSystem", "find_batch_system"]
