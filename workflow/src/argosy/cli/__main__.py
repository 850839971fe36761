"""`python -m argosy.cli`, for scripts that name their interpreter."""

from argosy.cli import main

main()
