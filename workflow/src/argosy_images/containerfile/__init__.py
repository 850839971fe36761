"""Parse Containerfiles: text into instructions, instructions into stages. Nothing is run here.

The grammar is BuildKit's, which `podman build` shares: https://docs.docker.com/reference/dockerfile/.
Each fault is an ArgosyError with file and line.
"""
