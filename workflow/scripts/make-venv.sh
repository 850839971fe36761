#!/bin/bash
# Makes the virtual environment, with or without the distribution's python3-venv, and without root.
#   make-venv.sh FOLDER
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

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "error: Argosy needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2
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

python=$(find_python)
echo "environment: making $venv with $python"
rm -rf -- "$venv"
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
    pip=("$venv/bin/python" -m pip)
else
    "$python" -m venv --without-pip "$venv"
    scratch=$(mktemp -d)
    trap 'rm -rf -- "$scratch"' EXIT
    "$venv/bin/python" "$(fetch_pip "$scratch")/pip" install -qq pip
    pip=("$venv/bin/python" -m pip)
fi
echo "environment: installing the pinned packages"
lock=requirements.lock
if [ "${HASHES:-}" = no ]; then
    lock=$venv/requirements.lock
    sed -E '/^ *--hash=/d; s/ *\\$//' requirements.lock >"$lock"
fi
"${pip[@]}" install -qq --disable-pip-version-check --requirement "$lock" || {
    echo "error: the pinned packages could not be installed, see above. Where the hashes do not match and" \
        "this site builds its wheels itself: make HASHES=no setup takes them by version" >&2
    exit 2
}
"${pip[@]}" install -qq --disable-pip-version-check --no-deps --editable .
# The scripts that draw a report's charts take seconds to put together.
"$venv/bin/python" -c 'from argosy.report.charts.chart_scripts import chart_scripts; chart_scripts()' ||
    echo "environment: the first report will try to make the scripts of its charts" >&2
touch "$venv/.ready"
