"""The format of a run's folder, shared by the agent, the host's programs, the ranks and readers of results.

`layout` names the files and their limits. `attempt` has the paths of an attempt's files. `files` reads
untrusted files and replaces files atomically. `run` types and checks run.json. `steps` packs and reads
rows of steps. Standard library only, Python 3.8; `files` and `layout` Python 3.6.
"""
