"""Programs of compute nodes (standard library only, Python 3.8 or later).

The folder is mounted at /argosy: ``python3 /argosy/agent`` starts the agent of one node, and
/argosy/python, with the step recorder, is on the PYTHONPATH of the ranks. The batch script runs the
other programs on the host. Nothing here imports the rest of Argosy.
"""
