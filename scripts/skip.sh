# Sourced by the scripts of tests that need what a machine may lack.

# Ends the script NAME because of WHY: as if it had passed, but with CI set it has failed, unless MAY_SKIP
# (names, with spaces between) has NAME.
skip() { # NAME WHY
    echo "$1: SKIPPED: $2"
    if [[ -n ${CI:-} && " ${MAY_SKIP:-} " != *" $1 "* ]]; then
        echo "$1: FAILED: CI is set; MAY_SKIP=$1 lets it be skipped" >&2
        exit 1
    fi
    exit 0
}
