# To be sourced: sets the read-ahead of the device under a directory, and says what it is. A benchmark
# that does not print it proves nothing.
#
#   set_read_ahead DIR KB     KB may be "keep"; it stays as it is where it may not be set
#   restore_read_ahead        as it was before

read_ahead_before=
read_ahead_file=

# The read-ahead file of the block device under DIR; empty where there is none to be found.
find_read_ahead() {
    local device major minor queue
    device=$(stat -c %d "$1")
    major=$(((device >> 8) & 0xfff))
    minor=$(((device & 0xff) | ((device >> 12) & 0xfff00)))
    for queue in "/sys/dev/block/$major:$minor/queue" "/sys/dev/block/$major:$minor/../queue"; do
        if [[ -f $queue/read_ahead_kb ]]; then
            echo "$queue/read_ahead_kb"
            return
        fi
    done
}

set_read_ahead() {
    read_ahead_file=$(find_read_ahead "$1")
    if [[ -z $read_ahead_file ]]; then
        echo "read-ahead: unknown (no block device found under $1)"
    elif [[ $2 != keep && -w $read_ahead_file ]]; then
        read_ahead_before=$(cat "$read_ahead_file")
        echo "$2" >"$read_ahead_file"
        echo "read-ahead: $(cat "$read_ahead_file") KB (was $read_ahead_before KB, restored at the end)"
    else
        echo "read-ahead: $(cat "$read_ahead_file") KB (left as it is)"
    fi
}

restore_read_ahead() {
    if [[ -n $read_ahead_before ]]; then echo "$read_ahead_before" >"$read_ahead_file"; fi
}
