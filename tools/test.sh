#!/usr/bin/env bash
# All tests, in the time of the longer half: those on Spark, which wait a lot, run while two workers run the others.
# What the Spark half prints is shown when both have ended.
set -uo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
unset PYTHONDONTWRITEBYTECODE  # hundreds of processes are started, and each would compile the package anew
log=$(mktemp)
# Compiled once for the many processes that tests start, also where Python is told to leave no compiled files behind.
"$python" -m compileall -q src
# The shell lets what runs in the background ignore interrupts, and tests of interrupts need them.
env --default-signal=INT "$python" -m pytest -q -m spark >"$log" 2>&1 &
spark=$!
trap 'kill "$spark" 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 130' INT TERM

# Tests are independent of each other: a worker that has nothing left takes over half of what the other still has.
plain=0
"$python" -m pytest -q -n 2 --dist worksteal -m "not spark" || plain=$?
onspark=0
wait "$spark" || onspark=$?
echo "on Spark:"
cat "$log"
[ "$plain" -eq 0 ] && [ "$onspark" -eq 0 ]
