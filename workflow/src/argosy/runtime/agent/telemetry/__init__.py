"""Telemetry of a node while its ranks run: CPUs, memory, network, disks, energy and GPUs, once a second."""
