#!/usr/bin/env bash
# Builds the wheel and the source archive into dist/, and tries both as a user would who has nothing else:
#   1. the version is the one of the changelog and of CITATION.cff
#   2. the wheel built from the source archive holds the same files as the wheel built from this tree
#   3. each is installed in a clean environment, and its commands run in an empty folder
# Dependencies come from the package index. Without a network, or with OFFLINE=1, those of .venv are lent to the clean
# environments; the project itself never is.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'release: %s\n' "$*" >&2; }
die() { printf 'release: error: %s\n' "$*" >&2; exit 1; }

bin=.venv/bin
version=$("$bin/python" -c 'exec(open("src/antecast/version.py").read()); print(__version__)')
grep -q "^## $version " CHANGELOG.md || die "CHANGELOG.md has no section '## $version (DATE)'"
grep -q "^version: $version\$" CITATION.cff || die "CITATION.cff does not name version $version"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf dist
"$bin/python" -m hatchling build -d dist >/dev/null 2>"$work/build.log" || { cat "$work/build.log" >&2; die "the build failed"; }
wheel=dist/antecast-$version-py3-none-any.whl
archive=dist/antecast-$version.tar.gz
[ -e "$wheel" ] && [ -e "$archive" ] || die "expected $wheel and $archive"

files() { "$bin/python" -m zipfile -l "$1" | awk 'NR > 1 { print $1 }' | grep -v RECORD | sort; }
mkdir "$work/source"
tar -xzf "$archive" -C "$work/source" --strip-components 1
(cd "$work/source" && "$OLDPWD/$bin/python" -m hatchling build -t wheel -d "$work/again" >/dev/null 2>&1) \
    || die "the source archive does not build"
diff <(files "$wheel") <(files "$work"/again/*.whl) || die "the source archive makes another wheel than this tree"

# Lends the packages of another environment. A path in a .pth file is searched, but the .pth files in it are not read,
# so an editable install of the project stays behind.
lend() { "$2/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    > "$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lent.pth"; }

install_alone() { # ENVIRONMENT FILE ENVIRONMENT_THAT_LENDS
    "$bin/python" -m venv "$1"
    lend "$1" "$3"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation "$2"
}

try() { # ENVIRONMENT, and `spark` to try Spark too, or `bare` to see that it is not there
    local bin=$1/bin folder code=0
    folder=$(mktemp -d -p "$work")
    (
        cd "$folder"
        export PATH=$bin:$PATH
        [ "$(antecast --version)" = "antecast $version" ] || die "antecast --version says $(antecast --version)"
        python -c 'import antecast, sys; assert antecast.__file__.startswith(sys.prefix), antecast.__file__' \
            || die "the installed package is not the one that is imported"
        antecast examples >/dev/null
        antecast protocols >/dev/null
        antecast run examples/scenarios/quickstart.toml --quiet --out run
        [ -s run/report.html ] || die "antecast run wrote no report"
        antecast demonstrate mixed-lifetimes >/dev/null
        antecast audit examples/logs/chat.csv --map node=host,pos=line,kind=event,origin=author,seq=number >/dev/null \
            || code=$?
        [ "$code" -eq 1 ] || die "antecast audit ended with $code, expected 1"
        printf 'hello\n' | antecast node --number 0 --journal solo.journal --until 1 | grep -qx '0:1 hello' \
            || die "antecast node did not deliver"
        antecast audit solo.journal >/dev/null || die "antecast audit does not take a journal"
        antecast new my-protocol >/dev/null
        antecast run my-protocol/scenario.toml --quiet --set protocol.name=fifo
        if [ "$2" = bare ]; then
            ! python -c 'import pyspark' 2>/dev/null || die "pyspark is installed without the extra"
            told=$(antecast sweep examples/studies/loss.toml 2>&1) && die "antecast sweep needs no Spark"
            [[ $told == *"pip install 'antecast[spark]'"* ]] || die "antecast sweep does not say what to install: $told"
        fi
        [ "$2" = spark ] || exit 0
        if command -v java >/dev/null || [ -n "${JAVA_HOME:-}" ]; then
            antecast sweep examples/studies/loss.toml >/dev/null || die "antecast sweep failed"
        else
            say "no Java here: Spark was not tried"
        fi
    ) || die "$(basename "$1") does not work"
}

say "installing $wheel in a clean environment"
clean=$work/wheel
"$bin/python" -m venv "$clean"
if [ -n "${OFFLINE:-}" ] || ! "$clean/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"; then
    say "dependencies are lent by .venv"
    rm -rf "$clean"
    install_alone "$clean" "$wheel" .venv
else
    try "$clean" bare
    "$clean/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[spark]"
fi
try "$clean" spark

say "installing $archive in a clean environment"
install_alone "$work/archive" "$archive" .venv
try "$work/archive" plain

say "dist/ holds $(basename "$wheel") ($(du -h "$wheel" | cut -f1)) and $(basename "$archive") ($(du -h "$archive" | cut -f1))"
