#!/bin/sh
# Make a virtual environment with a current pip, saying plainly what is missing.
# Usage: tools/make_venv.sh FOLDER [PYTHON]
set -eu

folder=$1
wanted=${2:-}

# No wheels of grpcio exist for free-threaded builds, hence the second check.
fits() {
    "$1" -c 'import sys, sysconfig
sys.exit(sys.version_info < (3, 11) or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))' \
        >/dev/null 2>&1
}

find_python() {
    for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if fits "$name"; then
            echo "$name"
            return
        fi
    done
    echo "error: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3" >&2
    return 1
}

if [ -n "$wanted" ]; then
    fits "$wanted" || {
        echo "error: PYTHON=$wanted does not run, or is not Python 3.11 or newer (with the GIL)" >&2
        exit 1
    }
    python=$wanted
else
    python=$(find_python)
fi

# Debian splits ensurepip off; a pip that is already there can install itself into the new folder.
if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    "$python" -m venv "$folder"
elif "$python" -c 'import pip, venv' >/dev/null 2>&1; then
    "$python" -m venv --without-pip "$folder"
    "$python" -m pip --python "$folder/bin/python" install --quiet pip
else
    echo "error: $python has neither ensurepip nor pip; on Debian or Ubuntu: apt install python3-venv" >&2
    exit 1
fi
# Dependency groups need pip 25.1.
"$folder/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
