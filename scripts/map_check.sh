#!/usr/bin/env bash
# Compares the map in ARCHITECTURE.md with what callgrind has counted (scripts/instructions.sh): each file in
# which a put, a get, a scan or a merge spends a hundredth of its instructions or more is named in the flow of that
# name, and after one that calls it. Leaves do not count: base/, vfs/, and errors.
set -euo pipefail
cd "$(dirname "$0")/.."

counted=${CARGO_TARGET_DIR:-target}/gungraun/unikv-bench/instructions

# What callgrind has written of the thread that does most in a case.
out_of() {
    local out
    out=$(find "$counted/$1" -name 'callgrind.*.p1.out' -exec grep -H '^summary:\|^totals:' {} + 2>/dev/null |
        awk -F: '$NF + 0 > most { most = $NF + 0; file = $1 } END { print file }')
    if [[ -z $out ]]; then
        echo "map: $1 has not been counted: run scripts/instructions.sh" >&2
        exit 1
    fi
    echo "$out"
}

# The files in which a case spends so much, each with its share in per cent.
files_of() {
    local out
    out=$(out_of "$1")
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

# The calls from file to file in which a case spends so much: who calls, and who is called.
calls_of() {
    awk '
        function short(file) { return index(file, "crates/unikv/src/") ? substr(file, index(file, "/src/") + 5) : "" }
        /^fl=/ { from = substr($0, 4) }
        /^cf[il]=/ { to = substr($0, 5) }
        /^calls=/ {
            getline
            a = short(from); b = short(to == "" ? from : to); to = ""
            if (a != "" && b != "" && a != b) spent[a " " b] += $NF
        }
        /^(summary|totals):/ { all = $2 }
        END { for (call in spent) if (100 * spent[call] >= all) print call }' "$(out_of "$1")" |
        grep -vE '(^| )(base/|vfs/|error)' || true
}

# Where a flow names a file first, if it does.
place_of() {
    grep -boF "$2" <<<"$1" | head -n 1 | cut -d: -f1 || true
}

flow() {
    awk -v title="### $1" '$0 == title { on = 1; next } /^##/ { on = 0 } on' ARCHITECTURE.md
}

missing=0
compare() {
    local text file share calls caller called from to is_called is_after
    text=$(flow "$1")
    shift
    for case in "$@"; do
        out_of "$case" >/dev/null || exit 1
        while read -r file share; do
            # A folder is named once, with the files in it: `log/{wal,writer}.rs`.
            if ! grep -qF "$file" <<<"$text"; then
                echo "map: $case spends $share % in $file, which the flow does not name"
                missing=1
            fi
        done < <(files_of "$case")
        calls=$(calls_of "$case")
        for called in $(cut -d' ' -f2 <<<"$calls" | sort -u); do
            to=$(place_of "$text" "$called")
            is_called=0
            is_after=0
            for caller in $(awk -v called="$called" '$2 == called { print $1 }' <<<"$calls"); do
                from=$(place_of "$text" "$caller")
                if [[ -z $to || -z $from ]]; then continue; fi
                is_called=1
                if ((from < to)); then is_after=1; fi
            done
            if ((is_called && !is_after)); then
                echo "map: in $case the flow names $called before all that call it"
                missing=1
            fi
        done
    done
}

compare Put writes/put.one
compare Get reads/get.memtable reads/get.unsorted_cached reads/get.unsorted_uncached reads/get.sorted_cached reads/get.sorted_uncached
compare Scan reads/scan_50.sorted_clustered reads/scan_50.sorted_not_clustered reads/scan_50.unsorted
compare Merge jobs/merge.into_sorted
if ((missing)); then exit 1; fi
echo "map: the flows name each file in which a put, a get, a scan and a merge spend a hundredth of their instructions"
echo "map: and each after one that calls it"
