"""The folder of a run (docs/run-folder.md): its files' schemas, its attempts, its failures in words.

`models` has each JSON file's schema and `folder` reads them; `attempts` orders the executions of a run's
jobs; `job_file` notes those jobs; `failures` says in words why an attempt came to nothing; `log_tail` reads
logs from their ends. Programs of the job itself (`runtime/`, Python 3.8)
write the same files without this package; they share names, version and limits (`runtime/contract/`), and
tests/unit/run_folder holds them to these schemas.
"""
