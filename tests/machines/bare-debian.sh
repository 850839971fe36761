#!/bin/bash
# Shows that Argosy starts on a Debian 12 that has nothing but Python and make: no git, curl, pip, venv,
# container tools or subordinate ids, and an ordinary user. The machine is a root file system made for
# this, in namespaces of its own; making and entering it needs root and mmdebstrap.
#   bare-debian.sh [COMMAND]        default: set up, build a small image; then, with zstd, run the tests
#                                   that need no Slurm and no browser (those that need podman or the
#                                   like skip themselves)
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command=${1:-make setup && .venv/bin/argosy image build small}
tests="make .venv/.developing image"
tests+=" && .venv/bin/pytest -m 'not slurm' --ignore=tests/slurm --ignore=tests/browser"
suite=bookworm

machine=$(mktemp -d /var/tmp/argosy-bare.XXXXXX)
trap 'rm -rf --one-file-system -- "$machine"' EXIT
root=$machine/root
mmdebstrap --quiet --variant=minbase --include=python3,make,ca-certificates "$suite" "$root"
chroot "$root" useradd --create-home researcher
rm -f "$root"/etc/subuid "$root"/etc/subgid
home=$root/home/researcher
mkdir -p "$home/argosy/containers/small"
git -C "$project" archive HEAD | tar -x -C "$home/argosy"
printf 'FROM docker.io/library/debian:%s-slim\nRUN useradd joe && id joe\n' "$suite" \
    > "$home/argosy/containers/small/Containerfile"
chroot "$root" chown -R researcher: /home/researcher
# This host's way to the network: names and certificates.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"

printf '127.0.0.1 localhost\n' >"$root/etc/hosts"

# Runs a command on the machine, as the researcher.
on_machine() {
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare --mount --pid --fork bash -euc '
        mount --bind "$1" "$1"
        cd "$1"
        for wheels in ${PIP_FIND_LINKS:-}; do
            [ -d "$wheels" ] && mkdir -p ".$wheels" && mount --bind "$wheels" ".$wheels"
        done
        mount --rbind /dev dev
        mount --rbind /sys sys
        mkdir -p old
        pivot_root . old
        mount -t proc proc /proc
        umount -l /old
        # No exec: this shell is the machine'"'"'s first process, and takes note of orphans that end.
        su researcher -c "export HOME=/home/researcher PATH=/usr/bin:/bin; cd ~/argosy; $2"
        exit "$?"
    ' bash "$root" "$1"
}

on_machine "$command"
if [ $# = 0 ]; then
    chroot "$root" apt-get update -qq
    chroot "$root" apt-get install -y -qq --no-install-recommends zstd
    on_machine "$tests"
fi
