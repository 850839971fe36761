"""Reads Containerfiles: text to instructions, instructions to stages. Nothing is run here.

The grammar is BuildKit's, which `podman build` shares: https://docs.docker.com/reference/dockerfile/.
"""
