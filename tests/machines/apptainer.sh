#!/bin/bash
# Runs the tests of the engine apptainer on a Debian that has it (sid), as an ordinary user: Debian 12 has none.
# The machine is a root file system made for this, in namespaces of its own; making it needs root and mmdebstrap.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

machine=$(mktemp -d /var/tmp/argosy-apptainer.XXXXXX)
trap 'rm -rf --one-file-system -- "$machine"' EXIT
root=$machine/root
mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
    --include=python3,python3-pytest,python3-psutil,python3-pydantic,ca-certificates,apptainer,uidmap sid "$root"
chroot "$root" useradd --create-home researcher
git -C "$project" archive HEAD | tar -x -C "$root/home/researcher"
chroot "$root" chown -R researcher: /home/researcher

# shellcheck disable=SC2016 # the inner shell expands these
unshare --mount --pid --fork bash -euc '
    mount --bind "$1" "$1"
    cd "$1"
    mount --rbind /dev dev
    mount --rbind /sys sys
    mkdir -p old
    pivot_root . old
    mount -t proc proc /proc
    umount -l /old
    su researcher -c "export HOME=/home/researcher PATH=/usr/bin:/bin; cd; $2"
    exit "$?"
' bash "$root" "apptainer --version && PYTHONPATH=workflow/src python3 -m pytest -q -rs -c /dev/null \
    -p no:cacheprovider --rootdir=. --noconftest tests/containers/test_apptainer.py"
