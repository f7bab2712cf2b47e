#!/usr/bin/env bash
# The Python package: builds it, installs it into a virtual environment under the target directory, and runs
# its tests, the examples of its docstrings, and mypy on its types and stubs. What the tests need comes from
# PyPI. What a machine lacks is skipped, which CI takes for a failure.
#
# Variable: PYTHON (python3), of 3.11 or later.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

package=$PWD/crates/unikv-python
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$CARGO_TARGET_DIR/python-check
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# Of plyvel's own tests, what must fail: it stores a key of more than 64 KiB; it needs an order of keys that is
# not bytewise.
EXPECTED='test_approximate_sizes test_comparator'
PLYVEL=1.5.1

# Runs pytest by a command whose output goes to LOG, and prints its last line if all have passed.
tests() { # LOG COMMAND...
    local log=$1
    "${@:2}" -v -rfE -p no:cacheprovider -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true \
        >"$log" 2>&1 || return 1
    tail -1 "$log"
}

# Shows the log of tests that have failed: what failed, and last the test that had not ended, as only the
# end may be read.
show() { # LOG
    local last ended=' [A-Z]+ +\[ *[0-9]+%\]$'
    grep -vE ' PASSED +\[ *[0-9]+%\]$' "$1" | tail -n 300 >&2 || true
    last=$(grep -E '^[^ ]+\.py::' "$1" | tail -n 1) || true
    [[ -z $last || $last =~ $ended ]] || echo "this test had not ended: $last" >&2
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    skip python-check "there is no Python 3.11 or later"
"$python" -c 'import ensurepip, venv' 2>/dev/null || skip python-check "Python has no module venv"

echo "-- tools, for $("$python" --version)"
tools=$package/tests/requirements.txt
if ! cmp --quiet "$tools" "$out/installed" || ! "$out/venv/bin/python" -c '' 2>/dev/null; then
    rm -rf "$out"
    "$python" -m venv "$out/venv"
    if ! "$out/venv/bin/pip" install --quiet -r "$tools" 2>"$out/pip.log"; then
        cat "$out/pip.log" >&2
        skip python-check "PyPI cannot be reached"
    fi
    cp "$tools" "$out/installed"
fi

echo "-- package"
rm -rf "$out/wheels"
"$out/venv/bin/maturin" build --quiet --locked --interpreter "$out/venv/bin/python" --profile dev --out "$out/wheels" -m "$package/Cargo.toml"
"$out/venv/bin/pip" install --quiet --force-reinstall --no-deps "$out"/wheels/*.whl

# Elsewhere, so that what is imported is what was installed.
cd "$out"
echo "-- types"
venv/bin/mypy --strict --python-version 3.11 --cache-dir "$out/mypy" -p unikv
venv/bin/python -m mypy.stubtest unikv
echo "-- tests"
if ! tests pytest.log venv/bin/python -m pytest -c "$package/pyproject.toml" --rootdir "$package" --basetemp "$out/tmp" "$package/tests"; then
    show pytest.log
    exit 1
fi
rm -rf "$out/tmp"

echo "-- plyvel's own tests, with unikv.plyvel in its place"
others=$out/plyvel-$PLYVEL
if [[ ! -d $others/test ]]; then
    # Only its source distribution has the tests; it is not built.
    if ! venv/bin/pip download --quiet --no-binary :all: --no-deps -d "$out" "plyvel==$PLYVEL" 2>"$out/pip.log"; then
        cat "$out/pip.log" >&2
        skip python-check "PyPI has no source of plyvel"
    fi
    tar -xzf "$out/plyvel-$PLYVEL.tar.gz" -C "$out"
fi
cat >"$out/plyvel.py" <<'END'
import sys
import pytest
import unikv.plyvel

sys.modules["plyvel"] = unikv.plyvel
sys.exit(pytest.main(sys.argv[1:]))
END
mkdir -p "$out/tmp"
TMPDIR=$out/tmp tests plyvel.log venv/bin/python plyvel.py --tb=short --rootdir "$others" "$others/test" || true
rm -rf "$out/tmp"
failed=$(sed -n 's/^FAILED [^ ]*::\([a-z_]*\).*/\1/p' plyvel.log | sort | xargs)
if [[ $failed != "$EXPECTED" ]]; then
    show plyvel.log
    echo "of plyvel's tests these fail: $failed; these are to fail: $EXPECTED" >&2
    exit 1
fi
tail -1 plyvel.log
echo "that fail as they must: $failed"
