#!/usr/bin/env bash
# Fails on a link in a document that names a file which is not there, or a heading that the file has not.
set -euo pipefail
cd "$(dirname "$0")/.."

# The names under which the headings of a document are linked to.
anchors_of() {
    sed -nE 's/^#{1,6} +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

broken=0
while IFS=: read -r document line target; do
    target=${target#*](}
    target=${target%)}
    target=${target#\[*\]: }
    # A link to a document reads as the document it links to.
    if [[ -L $document || -z $target || $target == *://* ]]; then continue; fi
    file=$document anchor=
    if [[ $target == *#* ]]; then anchor=${target#*#}; fi
    if [[ -n ${target%%#*} ]]; then file=$(dirname "$document")/${target%%#*}; fi
    if [[ ! -e $file ]]; then
        echo "$document:$line: links to ${target%%#*}, which is not there" >&2
        broken=1
    elif [[ -n $anchor && $file == *.md ]] && ! grep -qxF -- "$anchor" <(anchors_of "$file"); then
        echo "$document:$line: links to #$anchor, which $file has not" >&2
        broken=1
    fi
done < <(git ls-files -z '*.md' | xargs -0 grep -HnoE '\]\([^)]*\)|^\[[^]^][^]]*\]: .*')
exit "$broken"
