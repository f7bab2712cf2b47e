#!/usr/bin/env bash
# Compares the map in ARCHITECTURE.md with what callgrind has counted (scripts/instructions.sh): each file in
# which a put, a get or a scan spends a hundredth of its instructions or more is named in the flow of that name.
# Leaves do not count: base/, vfs/, and errors.
set -euo pipefail
cd "$(dirname "$0")/.."

counted=${CARGO_TARGET_DIR:-target}/gungraun/unikv-bench/instructions

# The files in which a case spends so much, each with its share in per cent.
files_of() {
    local out
    out=$(find "$counted/$1" -name 'callgrind.*.t1.p1.out' 2>/dev/null | head -n 1)
    if [[ -z $out ]]; then
        echo "map: $1 has not been counted: run scripts/instructions.sh" >&2
        exit 1
    fi
    callgrind_annotate --auto=no --threshold=100 "$out" 2>/dev/null | awk '
        $1 ~ /^[0-9,]+$/ {
            count = $1; gsub(",", "", count)
            line = $0; sub(/^ *[0-9,]+ *(\([^)]*\))? */, "", line)
            if (line ~ /PROGRAM TOTALS/) { all = count + 0; next }
            at = index(line, "crates/unikv/src/")
            if (!at) next
            file = substr(line, at + length("crates/unikv/src/")); sub(/:.*/, "", file)
            spent[file] += count
        }
        END { for (file in spent) if (100 * spent[file] >= all) printf "%s %.1f\n", file, 100 * spent[file] / all }' |
        grep -vE '^(base/|vfs/|error)' || true
}

flow() {
    awk -v title="### $1" '$0 == title { on = 1; next } /^##/ { on = 0 } on' ARCHITECTURE.md
}

missing=0
compare() {
    local text file share
    text=$(flow "$1")
    shift
    for case in "$@"; do
        while read -r file share; do
            # A folder is named once, with the files in it: `log/{wal,writer}.rs`.
            if ! grep -qF "$file" <<<"$text"; then
                echo "map: $case spends $share % in $file, which the flow does not name"
                missing=1
            fi
        done < <(files_of "$case")
    done
}

compare Put writes/put.one
compare Get reads/get.memtable reads/get.unsorted_cached reads/get.unsorted_uncached reads/get.sorted_cached reads/get.sorted_uncached
compare Scan reads/scan_50.sorted_clustered reads/scan_50.sorted_not_clustered reads/scan_50.unsorted
if ((missing)); then exit 1; fi
echo "map: the flows name each file in which a put, a get and a scan spend a hundredth of their instructions"
