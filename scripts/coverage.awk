# Sums up the lines of an lcov file by folder of the engine. First argument file: exceptions, lines of
# `file | text of the line | reason`; a text that ends with … is the line's beginning.

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# Reads a source file: its lines, and where its tests begin.
function read_source(path, name,    number, line) {
    number = 0
    tests_begin = 1e9
    delete source
    while ((getline line < path) > 0) {
        number++
        source[number] = trim(line)
        if (line ~ /^#\[cfg\(test\)\]/ && number < tests_begin) tests_begin = number
        # A module in a file of its own ends nothing.
        if (number == tests_begin + 1 && line ~ /;$/) tests_begin = 1e9
    }
    close(path)
}

function is_core(name) {
    return name ~ /^(base|log|record|cache|key_table|version|offline\/repair)\// || name ~ /^memtable\/(ops|batch)\.rs$/ ||
        name ~ /^engine\/(open|stats\/lifetime)/ || name == "jobs/flush/index_build.rs"
}

function excused(name, text,    i) {
    for (i = 1; i <= exceptions; i++) {
        if (ex_file[i] != name) continue
        if (ex_text[i] == text || (ex_part[i] != "" && index(text, ex_part[i]) == 1)) {
            ex_used[i] = 1
            return 1
        }
    }
    return 0
}

FNR == NR {
    if ($0 ~ /^#/ || trim($0) == "") next
    n = split($0, part, " [|] ")
    exceptions++
    ex_file[exceptions] = trim(part[1])
    ex_text[exceptions] = trim(part[2])
    if (n < 3) { print "coverage: an exception without a reason: " $0; failed = 1 }
    if (ex_text[exceptions] ~ /…$/) {
        ex_part[exceptions] = ex_text[exceptions]
        sub(/…$/, "", ex_part[exceptions])
    }
    next
}

/^SF:/ {
    name = substr($0, 4)
    counts = index(name, root) == 1
    path = name
    name = substr(name, length(root) + 1)
    if (name ~ /tests\.rs$/ || name ~ /^testing\// || name ~ /\/tests\//) counts = 0
    if (counts) read_source(path, name)
    folder = name
    if (!sub(/\/.*/, "/", folder)) folder = "(root)"
    next
}

/^DA:/ && counts {
    split(substr($0, 4), at, ",")
    if (at[1] + 0 >= tests_begin) next
    hit = at[2] + 0 > 0
    all[folder]++; run[folder] += hit
    total++; total_run += hit
    if (!is_core(name)) next
    core++; core_run += hit
    if (hit) next
    if (excused(name, source[at[1]])) { core_excused++; next }
    missed[++misses] = sprintf("%s:%d: %s", name, at[1], source[at[1]])
}

END {
    for (folder in all) printf "%-14s %6d lines %6.2f %%\n", folder, all[folder], 100 * run[folder] / all[folder] | "sort"
    close("sort")
    printf "%-14s %6d lines %6.2f %%   (90 are wanted)\n", "the engine", total, 100 * total_run / total
    printf "%-14s %6d lines %6.2f %%   (97 are wanted), with %d excused %.2f %%\n", "formats etc.", core, \
        100 * core_run / core, core_excused, 100 * (core_run + core_excused) / core
    print "\nnot run, of formats and recovery:"
    for (i = 1; i <= misses; i++) print "  " missed[i]
    for (i = 1; i <= exceptions; i++) if (!ex_used[i]) print "an exception that excuses nothing: " ex_file[i] " | " ex_text[i]
    if (failed || 100 * total_run < 90 * total || 100 * (core_run + core_excused) < 97 * core) exit 1
}
