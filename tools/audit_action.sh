#!/usr/bin/env bash
# The step of action.yml: audits PATHS (one per line) and leaves everything in OUT. The exit code is the gate's.
set -uo pipefail

mapfile -t paths < <(printf '%s\n' "$PATHS" | sed '/^[[:space:]]*$/d; s/^[[:space:]]*//; s/[[:space:]]*$//')
# Words as in a shell, over several lines if need be; but a backslash is itself, as expressions have them.
words='import os, shlex
split = shlex.shlex(os.environ.get("OPTIONS", ""), posix=True, punctuation_chars=False)
split.whitespace_split, split.commenters, split.escape = True, "", ""
print("".join(f"{word}\0" for word in split), end="")'
if ! found=$(python -c "$words" | tr '\0' '\036'; exit "${PIPESTATUS[0]}"); then
  echo "error: options: a quotation mark is open: $OPTIONS" >&2
  exit 2
fi
options=()
[ -n "$found" ] && mapfile -t -d $'\036' options < <(printf '%s' "$found")
[ -n "${FORMAT:-}" ] && options+=(--format "$FORMAT")
if [ "${#paths[@]}" -eq 0 ]; then
  echo "error: paths: no file, folder or pattern is named" >&2
  exit 2
fi
mkdir -p "$OUT"
rm -f "$OUT/verdict.json" "$OUT/junit.xml" "$OUT/violations.sarif"  # of a use before this one

antecast audit "${options[@]}" --fail-on "${FAIL_ON:-violated}" --github \
  --out "$OUT" --junit "$OUT/junit.xml" --sarif "$OUT/violations.sarif" -- "${paths[@]}"
code=$?

if [ -n "${GITHUB_OUTPUT:-}" ] && [ -f "$OUT/verdict.json" ]; then
  python -c 'import json, sys; print("verdict=" + json.load(open(sys.argv[1]))["verdict"])' \
    "$OUT/verdict.json" >> "$GITHUB_OUTPUT"
fi
exit "$code"
