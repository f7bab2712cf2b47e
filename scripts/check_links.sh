#!/usr/bin/env bash
# Fails on a link in a document that names a file which is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

broken=0
while IFS=: read -r document line target; do
    target=${target#](}
    target=${target%)}
    target=${target%%#*}
    # A link to a document reads as the document it links to.
    if [[ -L $document || -z $target || $target == *://* ]]; then continue; fi
    if [[ ! -e $(dirname "$document")/$target ]]; then
        echo "$document:$line: links to $target, which is not there" >&2
        broken=1
    fi
done < <(git ls-files -z '*.md' | xargs -0 grep -HnoE '\]\([^)]*\)')
exit "$broken"
