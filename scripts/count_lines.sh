#!/usr/bin/env bash
# Counts lines of Rust without blank lines and comments, in files that git knows: of the program and of tests.
# Tests are files in tests/ folders and in files or folders named for tests, and modules behind `#[cfg(test)]` at the
# end of a file. With a commit it counts what that had: scripts/count_lines.sh HEAD~20
set -euo pipefail
cd "$(dirname "$0")/.."

commit=${1:-}
tree=.
if [[ -n $commit ]]; then
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    git archive "$commit" -- crates fuzz 2>/dev/null | tar -x -C "$tree" ||
        git archive "$commit" -- crates | tar -x -C "$tree"
fi
find "$tree" -name '*.rs' -not -path '*/target/*' -print0 | sort -z | xargs -0 awk '
    FNR == 1 {
        file = FILENAME; sub(/^.*crates\//, "", file); sub(/^\.\//, "", file)
        crate = file; sub(/\/.*/, "", crate)
        is_test = file ~ /\/tests\// || file ~ /\/benches\// || file ~ /tests?\.rs$/ || file ~ /\/(testing|models)\//
        in_comment = 0
    }
    /^#\[cfg\(test\)\]$/ { ends = 1; next }
    ends && /^mod [a-z_]+ \{$/ { is_test = 1 }
    { ends = 0 }
    /^[ \t]*$/ || /^[ \t]*\/\// { next }
    { lines[crate, is_test]++; crates[crate] = 1; all[is_test]++ }
    END {
        printf "%-16s %8s %8s\n", "crate", "program", "tests"
        for (crate in crates) printf "%-16s %8d %8d\n", crate, lines[crate, 0], lines[crate, 1] | "sort"
        close("sort")
        printf "%-16s %8d %8d\n", "all", all[0], all[1]
    }'
