#!/usr/bin/env bash
# Runs the models: tests for which a model checker chooses who runs next at each use of an atomic, a
# lock or an event. Loom runs every execution that the memory model allows for small programs around
# one structure; shuttle runs the whole engine under schedules that are drawn from fixed seeds. Each
# model is also made wrong on purpose, and must then be found wrong.
#
# Variables: CHECKERS (loom and shuttle), UNIKV_SCHEDULES (how many times as many schedules for shuttle).
# Arguments name tests. Builds go to target/model, beside those of other tests.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}/model
mkdir -p "$target"
# A model takes less time to run than to build.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 RUST_BACKTRACE=0
for checker in ${CHECKERS:-loom shuttle}; do
    echo "Models under $checker"
    log=$target/$checker.log
    if ! RUSTFLAGS="--cfg unikv_model --cfg unikv_model=\"$checker\"" CARGO_TARGET_DIR=$target/$checker \
        ${CARGO:-cargo} test -p unikv-db --lib --locked --quiet -- "${@:-models::}" --show-output \
        >"$log" 2>&1; then
        cat "$log"
        exit 1
    fi
    grep -E ': [0-9]+ (executions|schedules)|^test result' "$log" | sort -u
done
