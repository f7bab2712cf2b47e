#!/usr/bin/env bash
# Fails on words that the field has better ones for, in documents and in comments of the code. Each line of
# the list: a pattern, and what to write instead.
set -euo pipefail
cd "$(dirname "$0")/.."

words='
\b(told|tells?)\b|reports, returns, says
\banew\b|again
\bso (many|much)\b(?! +that)(?!$)|this many; as many
\brubbish\b|orphan file
\bblind slots?\b|unindexed table
\bsplinters?\b|undersized table
(?<![`-])\bat rest\b|idle
\b(heeds|tolls?|dearer|detours?)\b|honour a request; cost; costlier; direct read
(?<!")\b(pays?|paid|prices?)\b|charge, cost, worth its cost
\b(lets? go|letting go)\b|release
\bit is all one\b|it makes no difference
\bin front of\b|before
\b(lies?|lying|lay) apart\b|fragmented
\baround the page cache\b|past the page cache; direct
'

found=0
while read -r line; do
    [[ -n $line ]] || continue
    # A pattern may have bars of its own.
    pattern=${line%|*} instead=${line##*|}
    hits=$({
        git ls-files -z '*.md' | xargs -0 grep -HniP "$pattern" || true
        git ls-files -z '*.rs' | xargs -0 grep -HniP "(//|\").*?$pattern" || true
    })
    if [[ -n $hits ]]; then
        printf '%s\n' "$hits" | sed "s/$/   [$instead]/" >&2
        found=1
    fi
done <<<"$words"
exit "$found"
