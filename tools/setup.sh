#!/usr/bin/env bash
# Prepares everything that `make demo` and `make test` need, and nothing twice:
#   1. Java 17 or newer on the machine (through apt when it is missing)
#   2. a virtual environment in .venv with the exact versions of requirements.lock
#   3. this project, installed editable into it
# A stamp in .venv remembers what was installed, so that a repeated call returns at once.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=.venv
lowest_java=17

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 2; }

# Runs apt-get as root, or through sudo; fails with a message that says what to do by hand.
apt_install() {
    command -v apt-get >/dev/null || die "'$*' is needed and apt-get was not found; install it by hand, then run make again"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "'$*' is needed; run as root: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing $* with apt-get"
    "${as_root[@]}" apt-get update -qq >&2 || say "apt-get update failed, trying with the package lists at hand"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2 \
        || die "apt-get could not install $*; install it by hand, then run make again"
}

java_major() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    command -v "$java" >/dev/null || { echo 0; return; }
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

ensure_java() {
    local found
    found=$(java_major)
    if [ "${found:-0}" -lt "$lowest_java" ]; then
        [ "${found:-0}" -eq 0 ] || say "Java $found is too old for Spark"
        apt_install openjdk-17-jre-headless
        found=$(java_major)
        [ "${found:-0}" -ge "$lowest_java" ] \
            || die "Java $lowest_java was installed but 'java' is still version ${found:-none}; set JAVA_HOME to the newer one"
    fi
}

ensure_python() {
    command -v "$python" >/dev/null || die "'$python' was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3 test"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || die "$("$python" --version) is too old; Antecast needs Python 3.11 or newer (make PYTHON=python3.12 ...)"
    # Debian ships venv apart from Python.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
}

stamp="$venv/.installed-$(cat requirements.lock pyproject.toml tools/setup.sh | sha256sum | cut -c1-16)"
if [ ! -e "$stamp" ] || [ ! -x "$venv/bin/python" ]; then
    ensure_python
    say "creating $venv (once; takes a few minutes, Spark is large)"
    [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null || { rm -rf "$venv"; "$python" -m venv "$venv"; }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock \
        || die "the packages of requirements.lock could not be installed; see the message above"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . \
        || die "the project itself could not be installed; see the message above"
    rm -f "$venv"/.installed-*
    touch "$stamp"
    say "ready"
fi
ensure_java
