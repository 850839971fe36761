"""What runs inside the container (standard library only, Python 3.8 or later), and its two helpers.

The folder is mounted at /argosy: ``python3 /argosy/agent`` starts the agent of one node, and
/argosy/python, with the step recorder, lies on the PYTHONPATH of the ranks. `reserve_port.py`
and `verdict.py` run on the host, before and after. Nothing here imports the rest of Argosy.
"""
