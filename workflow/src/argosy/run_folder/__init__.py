"""The folder of a run (docs/run-folder.md): schemas of its files, its attempts and its failures.

Programs inside the job (`runtime/`, Python 3.8) write the same files without this package. They share
names, version and limits (`runtime/contract/`); tests/unit/run_folder checks them against these schemas.
"""
