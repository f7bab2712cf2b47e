#!/usr/bin/env bash
# Runs a command in a memory control group of its own, page cache included.
#
#   scripts/in_cgroup.sh LIMIT command …      LIMIT such as 1GiB or 512MiB
#   scripts/in_cgroup.sh --probe              succeeds when such a group can be made
#
# Works with cgroup v1 (the memory controller under /sys/fs/cgroup/memory) and v2. Where groups
# may not be made it says so and exits with status 77; the command has then not been run.
set -euo pipefail

unable() {
    echo "in_cgroup.sh: cannot make a memory cgroup: $1." >&2
    echo "in_cgroup.sh: run it as root on a host (or in a container with a writable /sys/fs/cgroup)." >&2
    exit 77
}

[[ $# -ge 1 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
if [[ $1 == --probe ]]; then
    limit=1073741824
    set -- true
else
    limit=$(numfmt --from=auto "${1%B}") || exit 2
    shift
    [[ $# -ge 1 ]] || { echo "in_cgroup.sh: no command given" >&2; exit 2; }
fi

root=/sys/fs/cgroup
if [[ -f $root/memory/memory.limit_in_bytes ]]; then
    group=$root/memory/unikv.$$
    limit_file=memory.limit_in_bytes
elif [[ -f $root/cgroup.controllers ]]; then
    grep -qw memory "$root/cgroup.controllers" || unable "this system has no memory controller"
    if ! grep -qw memory "$root/cgroup.subtree_control"; then
        { echo +memory >"$root/cgroup.subtree_control"; } 2>/dev/null ||
            unable "the memory controller is not enabled for sub-groups and may not be"
    fi
    group=$root/unikv.$$
    limit_file=memory.max
else
    unable "no control groups are mounted at $root"
fi

mkdir "$group" 2>/dev/null || unable "$group may not be created"
# A group can be removed once its last process has gone; the kernel may take a moment.
remove_group() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        rmdir "$group" 2>/dev/null && return
        sleep 0.2
    done
    echo "in_cgroup.sh: $group could not be removed" >&2
}
trap remove_group EXIT
{ echo "$limit" >"$group/$limit_file"; } 2>/dev/null || unable "the limit may not be set"
# Without this a group on a host with swap would hold more than its limit.
if [[ -f $group/memory.swap.max ]]; then
    { echo 0 >"$group/memory.swap.max"; } 2>/dev/null || true
elif [[ -f $group/memory.swappiness ]]; then
    { echo 0 >"$group/memory.swappiness"; } 2>/dev/null || true
fi

status=0
# The sub-shell enters the group and becomes the command; this shell stays outside to clean up.
(
    { echo "$BASHPID" >"$group/cgroup.procs"; } 2>/dev/null || unable "no process may enter it"
    exec "$@"
) || status=$?
exit "$status"
