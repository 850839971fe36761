"""`python -m argosy`, which is the command `argosy`."""

from argosy.cli import main

main()
