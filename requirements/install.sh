#!/bin/sh
# Makes .venv from a hashed lock and puts rerail into it: `sh requirements/install.sh demo` or `dev`. Run by `make setup`.
# Says in one sentence what is missing and what to do; does nothing when lock, pyproject.toml, folder and Python are the same.
set -eu
cd "$(dirname "$0")/.."
lock=$1
venv=.venv
stamp=$venv/.installed
log=$venv/install.log

fail() { printf 'make setup: %s\n' "$1" >&2; exit 1; }

# What the installed state depends on. A checkout that was moved has wrong paths in its scripts.
digest() { { pwd -P; cat "requirements/$1.txt" pyproject.toml requirements/install.sh; "$venv/bin/python" -VV; } 2>/dev/null | sha256sum | cut -c1-64; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none; }

# False when a person asks for another Python than that of .venv.
right_python() { [ -z "${PYTHON:-}" ] || [ "$(version "$PYTHON")" = "$(version "$venv/bin/python")" ]; }

fresh() { [ -f "$stamp" ] && right_python && grep -qx "$1 $(digest "$1")" "$stamp"; }

# The interpreter for a new .venv: PYTHON where it is given, else the first good one.
find_python() {
  old='' bare=''
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if ! new_enough "$candidate"; then old="$candidate is $(version "$candidate")"; continue; fi
    if ! has_venv "$candidate"; then bare=${bare:-$candidate}; continue; fi
    python=$candidate
    return
  done
  if [ -n "$bare" ]; then
    v=$(version "$bare")
    fail "$bare has no working venv module; on Debian or Ubuntu: apt-get install python$v-venv, then run make again."
  fi
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is no Python 3.11 or newer${old:+ ($old)}; name another one, or leave PYTHON out."
  fail "Python 3.11 or newer is needed${old:+, and $old}; on Debian 12, Ubuntu 24.04 or newer: apt-get install python3 python3-venv; or name one by PYTHON=."
}

# A .venv that works is kept, unless another Python was asked for.
usable_venv() {
  [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || return 1
  right_python || return 1
  [ ! -f "$stamp" ] || grep -qx "at $(pwd -P)" "$stamp"
}

why_not() {
  if grep -qiE 'do not match the hashes' "$log"; then
    echo 'a package is not the one that the lock names (its hash differs); nothing was installed'
  elif grep -qiE 'no space left' "$log"; then
    echo 'the disk is full; about 600 MB are needed'
  elif grep -qiE 'connection|temporary failure|max retries|timed out|resolve|proxy|ssl|no matching distribution|could not find a version' "$log"; then
    echo "the packages can't be fetched: is there a network, or a package index in pip's settings (pip config list)?"
  else
    echo 'pip failed'
  fi
}

run() { "$@" >>"$log" 2>&1 || fail "$(why_not) (see $log), then run make again."; }

if fresh "$lock" || fresh dev; then exit 0; fi
if ! usable_venv; then
  find_python
  "$python" -m venv --clear "$venv" >/dev/null || fail "$python could not make $venv; look at the lines above."
fi
: >"$log"
count=$(grep -c '^[a-z]' "requirements/$lock.txt")
echo "Installing up to $count packages into $venv from requirements/$lock.txt (once; a minute or two) ..."
run "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes -r "requirements/$lock.txt"
run env PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
printf 'at %s\n%s %s\n' "$(pwd -P)" "$lock" "$(digest "$lock")" >"$stamp"
echo "Ready: $venv/bin/rerail"
