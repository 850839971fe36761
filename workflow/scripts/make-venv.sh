#!/bin/bash
# Makes the virtual environment, with or without the distribution's python3-venv, and without root.
#   make-venv.sh FOLDER
# Packages come from the folder wheels/, where a bundle has brought one, and from the site's index otherwise.
# Each package has to be a file that is listed in requirements.lock; with HASHES=no in the environment
# only the versions count, as some sites build the wheels of their index themselves.
set -euo pipefail
venv=$1

# Where a path has spaces, or is long, pip's programs give it to a shell within double quotes.
case $PWD/$venv in
    *[\$\`\"\\]*)
        echo "error: $PWD: programs installed there would have parts of this path run by a shell;" \
            "move the project to one without \$, \`, \" and \\" >&2
        exit 2
        ;;
esac

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The newest module of Python that the site offers, loaded; its name, or nothing.
load_module() {
    type module >/dev/null 2>&1 || return 0
    local name
    name=$(module -t avail 2>&1 | sed 's/(default)//; s/ *$//' |
        grep -iE '(^|/)(cray-)?python3?/3\.1[1-9]([.-]|$)' | sort -V | tail -n 1) || true
    [ -n "$name" ] && module load "$name" >/dev/null 2>&1 && echo "$name"
}

# A Python that a manager of the user's keeps or fetches; its path, or nothing.
managed_python() {
    if command -v uv >/dev/null; then
        uv python find '>=3.11' 2>/dev/null || { uv python install 3.12 >&2 && uv python find '>=3.11'; }
        return
    fi
    local manager
    for manager in micromamba mamba conda; do
        if command -v "$manager" >/dev/null; then
            "$manager" create --quiet --yes --prefix "$PWD/.python" --channel conda-forge python=3.12 >&2 &&
                echo "$PWD/.python/bin/python3"
            return
        fi
    done
}

# Sets `python`. A module stays loaded for the rest of this script.
find_python() {
    local candidate module here
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            python=$(command -v "$candidate")
            return
        fi
    done
    # In this shell and not in one below it, which would keep the module to itself. Sites' own functions
    # use variables that are not set.
    set +u
    load_module >"$scratch/module" || true
    set -u
    module=$(cat "$scratch/module")
    if [ -n "$module" ] && is_new_enough python3; then
        python=$(command -v python3)
        echo "environment: taking Python from the module $module"
        return
    fi
    python=$(managed_python) || true
    if [ -n "$python" ] && is_new_enough "$python"; then
        return
    fi
    here=$(python3 --version 2>/dev/null) || here="no Python"
    echo "error: Argosy needs Python 3.11 or newer, and $here is" \
        "what is here; load a module of it (module avail python), install uv or micromamba, or name one" \
        "with: make PYTHON=/path/to/python3" >&2
    exit 2
}

# pip, where the distribution keeps it apart from Python: from its package, unpacked for us alone.
fetch_pip() {
    local folder=$1
    (
        cd "$folder"
        mkdir -p lists/partial
        apt-get download -qq python3-pip-whl 2>/dev/null ||
            { apt-get -qq -o Debug::NoLocking=1 -o Dir::State::lists="$folder/lists" update &&
              apt-get -qq -o Dir::State::lists="$folder/lists" download python3-pip-whl; }
        dpkg-deb --extract python3-pip-whl_*.deb .
    ) >&2 || {
        echo "error: this Python has no ensurepip; ask the site for the package python3-venv" >&2
        exit 2
    }
    echo "$folder"/usr/share/python-wheels/pip-*.whl
}

unset PYTHONHOME PYTHONPATH
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
find_python
echo "environment: making $venv with $python"
rm -rf -- "$venv"
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
    pip=("$venv/bin/python" -m pip)
else
    "$python" -m venv --without-pip "$venv"
    # The distribution's own, whose signature apt has looked at: an index may offer any.
    wheel=$(fetch_pip "$scratch")
    "$venv/bin/python" "$wheel/pip" install -qq --no-index "$wheel"
    pip=("$venv/bin/python" -m pip)
fi
# A Python from a module may need what the module sets, which jobs and other terminals do not have.
if ! env -i "$venv/bin/python" -c 'import ssl, zlib' 2>/dev/null; then
    echo "error: $venv/bin/python does not start without the module it came from: name a Python that does," \
        "with: make PYTHON=/path/to/python3" >&2
    exit 2
fi
echo "environment: installing the pinned packages"
lock=requirements.lock
offline=()
if [ -d wheels ]; then
    # Some of them were built where the bundle was made, and have other hashes; the bundle has its own.
    offline=(--no-index --find-links wheels)
    HASHES=no
fi
if [ "${HASHES:-}" = no ]; then
    lock=$venv/requirements.lock
    sed -E '/^ *--hash=/d; s/ *\\$//' requirements.lock >"$lock"
fi
"${pip[@]}" install -qq --disable-pip-version-check "${offline[@]}" --requirement "$lock" || {
    echo "error: the pinned packages could not be installed, see above. Where the hashes do not match and" \
        "this site builds its wheels itself: make HASHES=no setup takes them by version" >&2
    exit 2
}
"${pip[@]}" install -qq --disable-pip-version-check "${offline[@]}" --no-deps --editable .
# The scripts that draw a report's charts take seconds to put together.
"$venv/bin/python" -c 'from argosy.report.page.chart_scripts import chart_scripts; chart_scripts()' ||
    echo "environment: the first report will try to make the scripts of its charts" >&2
# What modules set for Pythons of theirs would have ours load their packages.
sed -i -E '1s|^(#!.*/python[0-9.]*)$|\1 -E|; 2s|^(.{3}exec. .*/python[0-9.]*"?) |\1 -E |' "$venv/bin/argosy" "$venv/bin/snakemake"
touch "$venv/.ready"
