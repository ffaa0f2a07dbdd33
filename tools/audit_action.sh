#!/usr/bin/env bash
# The step of action.yml: audits PATHS (one per line) and leaves everything in OUT. The exit code is the gate's.
set -uo pipefail

mapfile -t paths < <(printf '%s\n' "$PATHS" | sed '/^[[:space:]]*$/d; s/^[[:space:]]*//; s/[[:space:]]*$//')
read -ra options <<< "${OPTIONS:-}"
[ -n "${FORMAT:-}" ] && options+=(--format "$FORMAT")
mkdir -p "$OUT"

antecast audit "${paths[@]}" "${options[@]}" --fail-on "${FAIL_ON:-violated}" --github \
  --out "$OUT" --junit "$OUT/junit.xml" --sarif "$OUT/violations.sarif"
code=$?

if [ -n "${GITHUB_OUTPUT:-}" ] && [ -f "$OUT/verdict.json" ]; then
  python -c 'import json, sys; print("verdict=" + json.load(open(sys.argv[1]))["verdict"])' \
    "$OUT/verdict.json" >> "$GITHUB_OUTPUT"
fi
exit "$code"
