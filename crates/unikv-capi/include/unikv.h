/* Written by a test of crates/unikv-capi (UNIKV_REWRITE_HEADER=1). */
#ifndef UNIKV_H
#define UNIKV_H

/* UniKV: an embedded, ordered, persistent key-value store.

   This is LevelDB's C interface under the prefix `unikv_`, and what UniKV has beside it. Programs
   written for LevelDB link `libleveldb` of this package instead, and change nothing.

   Conventions
   - Handles are opaque. Each is ended by its own function, once. Those of options, comparators and
     the like may be ended while the database is open.
   - Keys and values are a pointer and a length. NULL with a length of 0 is the empty string.
   - `errptr` points to a NULL, or to an earlier message from `malloc`, which is freed when another
     takes its place. A call that succeeds leaves it as it is. It may be NULL. The message begins
     with LevelDB's word for the kind of error (`Corruption: `, `IO error: `, ...), and names file,
     offset and remedy where there are any.
   - After a call that has failed, `unikv_last_error_kind` and its sisters return the details of the
     error, by thread like `errno`. Functions without `errptr` report there alone, and then return
     NULL or 0.
   - What is said to be freed comes from `malloc`; `unikv_free` frees it, too.
   - A boolean is an `unsigned char`: 0, or anything else for yes.

   Threads
   - A database, a keyspace and a snapshot may be used by any number of threads, but must not be
     closed while another call uses them. The same holds for options: they must not be changed or
     destroyed meanwhile.
   - Iterators, batches and transactions are used by one thread at a time.
   - A database that was opened before `fork` fails in the child with `unikv_forked`.
   - A function that the library calls returns, and does not throw or jump. If its thread ends inside
     it (`pthread_exit`), as an interpreter ends threads while the process exits, the thread stops
     there until the process is gone. Nobody waits for it.

   Mistakes that are caught, as `unikv_invalid_argument`, and change nothing: NULL for a handle or a
   string; a handle of another type; closing twice, and use after closing (until more than 1,024
   other handles of the type have been closed after it); iterators, batches and transactions used by
   two threads at once, or from a callback that they have called; a snapshot or a keyspace used with
   another database, a released snapshot; NULL with a length. Not caught, as C does not allow it:
   pointers to other memory, wrong lengths, closing what another thread is using.

   No panic of the library leaves it: that would be an error of the kind `unikv_internal_error`. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct unikv_options_t unikv_options_t;
typedef struct unikv_t unikv_t;
typedef struct unikv_writeoptions_t unikv_writeoptions_t;
typedef struct unikv_writebatch_t unikv_writebatch_t;
typedef struct unikv_readoptions_t unikv_readoptions_t;
typedef struct unikv_snapshot_t unikv_snapshot_t;
typedef struct unikv_iterator_t unikv_iterator_t;
typedef struct unikv_comparator_t unikv_comparator_t;
typedef struct unikv_filterpolicy_t unikv_filterpolicy_t;
typedef struct unikv_env_t unikv_env_t;
typedef struct unikv_logger_t unikv_logger_t;
typedef struct unikv_cache_t unikv_cache_t;
typedef struct unikv_keyspace_t unikv_keyspace_t;
typedef struct unikv_transaction_t unikv_transaction_t;
typedef struct unikv_changes_t unikv_changes_t;

/* What an error calls for: see `unikv_last_error_kind`. */
enum {
    unikv_ok = 0,
    /* The call is wrong: fix the call. Nothing changed. */
    unikv_invalid_argument = 1,
    /* Bytes on disk are not what was written: restore the file, or repair. */
    unikv_corruption = 2,
    /* The system refused: fix the cause that the message names. A write may have happened. */
    unikv_io_error = 3,
    /* The disk is full: free space or delete keys. Nothing of the call was written. */
    unikv_disk_full = 4,
    /* Another process or handle has the database open. */
    unikv_locked = 5,
    /* There is no database. */
    unikv_not_found = 6,
    /* Something else, or a newer format. */
    unikv_incompatible = 7,
    /* Writing is suspended after a failed write; its outcome is unknown. Reads go on. */
    unikv_writes_suspended = 8,
    /* The database has been closed. */
    unikv_closed = 9,
    /* A bug of UniKV: report it with the message, close and reopen. */
    unikv_internal_error = 10,
    /* It does not fit into the memory budget, or malloc failed. Nothing changed. */
    unikv_out_of_memory = 11,
    /* This is a child of the process that opened the database. */
    unikv_forked = 12,
    /* A write that may not wait would have to. Nothing changed. */
    unikv_would_block = 13,
    /* The keyspace is gone, or never was. */
    unikv_no_such_keyspace = 14,
    /* A transaction conflicts with another write: begin it again. Nothing changed. */
    unikv_conflict = 15,
    /* The changes after a token are not kept any more, or it is of another history of the database: read everything, and begin with a new token. */
    unikv_history_gone = 16,
    /* A read has taken longer than its timeout. Nothing changed. */
    unikv_timed_out = 17
};

enum {
    unikv_no_compression = 0,
    unikv_snappy_compression = 1,
    unikv_zstd_compression = 2
};

/* ==== The database ==== */

/* Opens the database in directory `name`, as the options say; NULL on failure. The options are
   not needed any more when this returns. As in LevelDB, a database is not created unless
   `unikv_options_set_create_if_missing` was called. */
unikv_t* unikv_open(const unikv_options_t* options, const char* name, char** errptr);

/* Closes the database at once. No other call may be using it. What was made of it (iterators,
   snapshots, transactions) may be closed later; other calls with it fail from now on, with
   `unikv_closed`. `unikv_close_checked` returns errors, too, and `unikv_close_report_json`
   what was still open. */
void unikv_close(unikv_t* db);

/* Stores a value under a key. */
void unikv_put(unikv_t* db, const unikv_writeoptions_t* options, const char* key, size_t keylen,
    const char* val, size_t vallen, char** errptr);

/* Removes a key. Removing what is not there is no error. */
void unikv_delete(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, char** errptr);

/* Commits all operations of a batch, or none. The batch stays as it is. */
void unikv_write(unikv_t* db, const unikv_writeoptions_t* options, unikv_writebatch_t* batch,
    char** errptr);

/* The value of a key, in memory that the caller frees, with its length in `*vallen`; NULL and
   0 if it has none, and on failure. A NUL that does not count stands after the value. */
char* unikv_get(unikv_t* db, const unikv_readoptions_t* options, const char* key, size_t keylen,
    size_t* vallen, char** errptr);

/* The database as it is now, until the snapshot is released. */
const unikv_snapshot_t* unikv_create_snapshot(unikv_t* db);

/* Releases a snapshot, also after its database was closed. Reads with options that still name
   it fail. */
void unikv_release_snapshot(unikv_t* db, const unikv_snapshot_t* snapshot);

/* Puts into `sizes[i]` about how many bytes on disk serve the keys from the i-th start to
   before the i-th limit. What is only in memory does not count. All are 0 on failure. */
void unikv_approximate_sizes(unikv_t* db, int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes);

/* Merges the keys from `start_key` to before `limit_key`, and waits for that; NULL stands for
   the first key, or for the end. The database does this in the background by itself. */
void unikv_compact_range(unikv_t* db, const char* start_key, size_t start_key_len,
    const char* limit_key, size_t limit_key_len);

/* ==== Properties ==== */

/* The value of a property, to be freed; NULL if there is none of that name. There are
   `leveldb.stats` and `leveldb.sstables`, texts for a person; `leveldb.num-files-at-level<N>`,
   of which level 0 is the UnsortedStore and level 1 the SortedStore; and
   `leveldb.approximate-memory-usage`, in bytes. */
char* unikv_property_value(unikv_t* db, const char* propname);

/* ==== Databases that nobody has open ==== */

/* Removes the database in directory `name`, which nobody may have open, and the directory if
   nothing else is in it. Where there is none, nothing is done. */
void unikv_destroy_db(const unikv_options_t* options, const char* name, char** errptr);

/* Saves what is intact of the damaged database in directory `name`, which nobody may have
   open: into a new one beside it, which then takes its name. The damaged one is kept, with
   `.damaged` after its name. A database without damage is left as it is. */
void unikv_repair_db(const unikv_options_t* options, const char* name, char** errptr);

/* ==== Iterators ==== */

/* An iterator over the database as it is now, or over the snapshot of the options. It is not
   valid before it is moved to an entry. Not NULL unless the handles are wrong: if there is
   another error, `unikv_iter_get_error` returns it. */
unikv_iterator_t* unikv_create_iterator(unikv_t* db, const unikv_readoptions_t* options);

/* Ends an iterator, also after its database was closed. */
void unikv_iter_destroy(unikv_iterator_t* iter);

/* Whether the iterator is on an entry. */
unsigned char unikv_iter_valid(const unikv_iterator_t* iter);

/* Moves to the first entry. */
void unikv_iter_seek_to_first(unikv_iterator_t* iter);

/* Moves to the last entry. */
void unikv_iter_seek_to_last(unikv_iterator_t* iter);

/* Moves to the first entry at or after a key. */
void unikv_iter_seek(unikv_iterator_t* iter, const char* k, size_t klen);

/* Moves to the next entry. An iterator that is not valid stays as it is. */
void unikv_iter_next(unikv_iterator_t* iter);

/* Moves to the entry before. An iterator that is not valid stays as it is. */
void unikv_iter_prev(unikv_iterator_t* iter);

/* The key of the entry, which stays there until the iterator is moved or destroyed; NULL if it
   is not valid. */
const char* unikv_iter_key(const unikv_iterator_t* iter, size_t* klen);

/* The value of the entry, as `unikv_iter_key`. */
const char* unikv_iter_value(const unikv_iterator_t* iter, size_t* vlen);

/* The error because of which the iterator is not valid, if there is one, in `*errptr`. */
void unikv_iter_get_error(const unikv_iterator_t* iter, char** errptr);

/* ==== Batches ==== */

/* An empty batch. */
unikv_writebatch_t* unikv_writebatch_create(void);

/* Ends a batch. */
void unikv_writebatch_destroy(unikv_writebatch_t* batch);

/* Removes all operations. */
void unikv_writebatch_clear(unikv_writebatch_t* batch);

/* Adds a put. What is beyond the limits (64 KiB for a key, 1 GiB for a value) fails when the
   batch is written. */
void unikv_writebatch_put(unikv_writebatch_t* batch, const char* key, size_t klen,
    const char* val, size_t vlen);

/* Adds a delete. */
void unikv_writebatch_delete(unikv_writebatch_t* batch, const char* key, size_t klen);

/* Calls `put` and `deleted` for the puts and deletes of the default keyspace, in their order.
   The functions must not use the batch, nor throw. `unikv_writebatch_iterate_all` shows
   operations on ranges and in other keyspaces, too. */
void unikv_writebatch_iterate(const unikv_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen));

/* Adds the operations of another batch after those of this one. */
void unikv_writebatch_append(unikv_writebatch_t* destination, const unikv_writebatch_t* source);

/* ==== Options of a database ==== */

/* Options with LevelDB's defaults. */
unikv_options_t* unikv_options_create(void);

/* Ends the options. */
void unikv_options_destroy(unikv_options_t* options);

/* Sets a comparator: see `unikv_comparator_create`. It must not be destroyed before the
   options are used for the last time. */
void unikv_options_set_comparator(unikv_options_t* options, const unikv_comparator_t* comparator);

/* Accepted without a meaning: hash indexes serve here, and a policy is never asked. */
void unikv_options_set_filter_policy(unikv_options_t* options,
    const unikv_filterpolicy_t* policy);

/* Whether a database is made where there is none. Default: 0. */
void unikv_options_set_create_if_missing(unikv_options_t* options, unsigned char yes);

/* Whether opening a database that exists is an error. Default: 0. */
void unikv_options_set_error_if_exists(unikv_options_t* options, unsigned char yes);

/* Accepted without a meaning: everything is verified in any case. */
void unikv_options_set_paranoid_checks(unikv_options_t* options, unsigned char yes);

/* Accepted without a meaning: there is one environment. */
void unikv_options_set_env(unikv_options_t* options, const unikv_env_t* env);

/* Accepted without a meaning: nothing is logged to files. */
void unikv_options_set_info_log(unikv_options_t* options, const unikv_logger_t* logger);

/* Bytes that are collected in memory before they are sorted into files, at most a twelfth of
   the memory. Default: what UniKV finds right, not LevelDB's 4 MiB. */
void unikv_options_set_write_buffer_size(unikv_options_t* options, size_t bytes);

/* Accepted without a meaning: open files are bounded by what the process may have. */
void unikv_options_set_max_open_files(unikv_options_t* options, int files);

/* The memory to be used: the bytes of the cache and four write buffers, at least 32 MiB.
   Without one it is 256 MiB, or what is stored in the database. */
void unikv_options_set_cache(unikv_options_t* options, const unikv_cache_t* cache);

/* Bytes of a block of keys, between 256 bytes and 1 MiB. Default: 4 KiB. */
void unikv_options_set_block_size(unikv_options_t* options, size_t bytes);

/* Accepted without a meaning. */
void unikv_options_set_block_restart_interval(unikv_options_t* options, int keys);

/* Bytes of a table of keys. Default: 2 MiB. */
void unikv_options_set_max_file_size(unikv_options_t* options, size_t bytes);

/* How values are compressed: `unikv_no_compression`; `unikv_snappy_compression`, in the place
   of which LZ4 is used; `unikv_zstd_compression`. Default: not at all, or what is stored. */
void unikv_options_set_compression(unikv_options_t* options, int kind);

/* ==== Options of reads and writes ==== */

/* Options of reads: of the newest state, in the default keyspace. */
unikv_readoptions_t* unikv_readoptions_create(void);

/* Ends the options. */
void unikv_readoptions_destroy(unikv_readoptions_t* options);

/* Accepted without a meaning: checksums are verified in any case. */
void unikv_readoptions_set_verify_checksums(unikv_readoptions_t* options, unsigned char yes);

/* Whether the read cache keeps what gets and iterators read: `unikv_get`, `unikv_get_into`,
   `unikv_transaction_get`, the first and the last entry, and iterators that are made with the
   options. Default: 1. With 0 a pass over more than the cache holds does not displace what
   other reads need. */
void unikv_readoptions_set_fill_cache(unikv_readoptions_t* options, unsigned char yes);

/* Has reads show a snapshot, until it is released or NULL is set. */
void unikv_readoptions_set_snapshot(unikv_readoptions_t* options,
    const unikv_snapshot_t* snapshot);

/* Options of writes: as the options of the database say, in the default keyspace. */
unikv_writeoptions_t* unikv_writeoptions_create(void);

/* Ends the options. */
void unikv_writeoptions_destroy(unikv_writeoptions_t* options);

/* Whether writes survive a power cut when the call returns (1), or may be lost in one, but not
   by the end of the process (0). */
void unikv_writeoptions_set_sync(unikv_writeoptions_t* options, unsigned char yes);

/* ==== Comparators ==== */

/* A comparator. A database opens with it if it orders bytes as `memcmp` does, and a shorter
   key before a longer one that begins with it: fixed pairs of keys of all lengths are compared
   at each opening. Its name is stored, and must be the same at the next opening. The functions
   may be called by any thread, and must not throw. */
unikv_comparator_t* unikv_comparator_create(void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));

/* Calls the destructor with the state. Databases that are open do not need it. */
void unikv_comparator_destroy(unikv_comparator_t* comparator);

/* ==== Filter policies, caches, the environment, versions ==== */

/* A filter policy. It is never asked: UniKV finds keys through hash indexes. The destructor is
   called with the state when it is destroyed. */
unikv_filterpolicy_t* unikv_filterpolicy_create(void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys, size_t* filter_length),
    unsigned char (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));

/* Ends a filter policy. */
void unikv_filterpolicy_destroy(unikv_filterpolicy_t* policy);

/* A filter policy, which is never asked either. */
unikv_filterpolicy_t* unikv_filterpolicy_create_bloom(int bits_per_key);

/* A cache: a number of bytes for `unikv_options_set_cache`. Databases do not share it. */
unikv_cache_t* unikv_cache_create_lru(size_t capacity);

/* Ends a cache; databases that were opened with it stay as they are. */
void unikv_cache_destroy(unikv_cache_t* cache);

/* The environment: the operating system. */
unikv_env_t* unikv_create_default_env(void);

/* Ends the environment. */
void unikv_env_destroy(unikv_env_t* env);

/* The path of a directory for tests, which is there when this returns: `$TEST_TMPDIR`, or one
   with the number of the user. To be freed with `unikv_free`; NULL on failure. */
char* unikv_env_get_test_directory(unikv_env_t* env);

/* Frees what a function of this library has returned and is to be freed, which `free` does,
   too. */
void unikv_free(void* ptr);

/* The first number of the version of LevelDB whose interface this is: 1. */
int unikv_major_version(void);

/* The second number: 23. */
int unikv_minor_version(void);

/* ==== Errors ==== */

/* The kind of the last error of this thread: `unikv_ok` if there was none. A call that
   succeeds leaves it as it is. */
int unikv_last_error_kind(void);

/* Its message; NULL if there was none. This and the next two are the library's, and stay until
   the next call of this thread that fails, or `unikv_clear_last_error`. */
const char* unikv_last_error_message(void);

/* What remedies it, as a sentence for a person; NULL if there was none. */
const char* unikv_last_error_remedy(void);

/* The file concerned; NULL where there is none. */
const char* unikv_last_error_file(void);

/* Puts the offset in the file into `*offset`; 0 where there is none. */
unsigned char unikv_last_error_offset(uint64_t* offset);

/* Forgets the last error of this thread. */
void unikv_clear_last_error(void);

/* ==== Opening by what may be there ==== */

/* Opens the database in directory `name`, which must be there; NULL on failure. Here and below
   `create_if_missing` and `error_if_exists` do not count. */
unikv_t* unikv_open_existing(const unikv_options_t* options, const char* name, char** errptr);

/* Creates a database in directory `name`, which must not hold one, and opens it; NULL on
   failure. */
unikv_t* unikv_create_new(const unikv_options_t* options, const char* name, char** errptr);

/* Creates a database in the memory of the process, which is gone when it is closed; NULL on
   failure. Nothing is read from or written to a disk; checkpoints and exports copy it there. */
unikv_t* unikv_open_in_memory(const unikv_options_t* options, char** errptr);

/* ==== UniKV's own options ==== */

/* Sets one of UniKV's own options by its name, to a value as text: `memory_budget` ("512MB"),
   `max_space_amp` ("1.5"), `durability` ("buffered", "sync", "periodic:100ms"), `compression`
   ("none", "lz4", "zstd", "zstd:7"), `default_ttl` ("7d", "never"), `inline_value_bytes`,
   `memtable_bytes`, `unsorted_bytes`, `partition_bytes`, `key_table_bytes`, `block_bytes`,
   `clustering` ("automatic", "least_writing"), `background_threads`, `scan_merge_limit`,
   `change_window_bytes`, `latencies` ("true", "false"), `slow_after` ("100ms") and
   `publish_stats` ("1s"). An unknown name, and a value that is none, are errors; a value out
   of range is one when the database is opened. */
void unikv_options_set(unikv_options_t* options, const char* name, const char* value,
    char** errptr);

/* Has the database forget an option that it has stored, by its name: the default holds from
   the opening on, unless the option is set afterwards. A database stores `memory_budget`,
   `memtable_bytes`, `unsorted_bytes`, `partition_bytes`, `inline_value_bytes`,
   `max_space_amp`, `clustering`, `key_table_bytes`, `block_bytes`, `scan_merge_limit`,
   `compression`, `default_ttl` and `change_window_bytes`; any other name is an error. */
void unikv_options_unset(unikv_options_t* options, const char* name, char** errptr);

/* Whether writes fail with `unikv_would_block`, and change nothing, where they would be slowed
   down because the background is behind. Default: 0. */
void unikv_writeoptions_set_no_wait(unikv_writeoptions_t* options, unsigned char yes);

/* ==== Keyspaces ==== */

/* The keyspace of this name, which is made if there is none; `default` is that of calls whose
   options name none. What is set in the options by name holds from now on:
   `inline_value_bytes`, `compression`, `default_ttl`. NULL on failure. */
unikv_keyspace_t* unikv_keyspace_open(unikv_t* db, const char* name,
    const unikv_options_t* options, char** errptr);

/* The keyspaces of `count` names into `keyspaces`, as `unikv_keyspace_open` gives one. Those
   that are not there are made, all at once: a power cut leaves all or none, and ten thousand
   take about as long as ten. On failure NULL is in each place. */
void unikv_create_keyspaces(unikv_t* db, const unikv_options_t* options, size_t count,
    const char* const* names, unikv_keyspace_t** keyspaces, char** errptr);

/* Removes `count` keyspaces with all their keys, all at once: a power cut leaves all or none.
   The handles are still to be closed. */
void unikv_drop_keyspaces(unikv_t* db, size_t count, unikv_keyspace_t* const* keyspaces,
    char** errptr);

/* The keyspace of this name; NULL if there is none, and on failure. */
unikv_keyspace_t* unikv_keyspace_find(unikv_t* db, const char* name, char** errptr);

/* Its number, by which changes and the operations of batches name it; 0 is the default one. */
uint32_t unikv_keyspace_number(unikv_keyspace_t* keyspace);

/* Ends the handle. Options that name the keyspace go on. */
void unikv_keyspace_close(unikv_keyspace_t* keyspace);

/* Gives it another name. */
void unikv_keyspace_rename(unikv_keyspace_t* keyspace, const char* name, char** errptr);

/* Removes all its keys at once, however many they are. */
void unikv_keyspace_truncate(unikv_keyspace_t* keyspace, char** errptr);

/* Removes the keyspace with all its keys. */
void unikv_keyspace_drop(unikv_keyspace_t* keyspace, char** errptr);

/* The names of all keyspaces, as a JSON array of strings, to be freed. */
char* unikv_keyspaces_json(unikv_t* db, char** errptr);

/* Has reads be of a keyspace; NULL stands for the default one. */
void unikv_readoptions_set_keyspace(unikv_readoptions_t* options,
    const unikv_keyspace_t* keyspace);

/* Has writes go to a keyspace; NULL stands for the default one. */
void unikv_writeoptions_set_keyspace(unikv_writeoptions_t* options,
    const unikv_keyspace_t* keyspace);

/* Adds a put to a batch, in the keyspace and with the time to live of the options. */
void unikv_writebatch_put_with(unikv_writebatch_t* batch, const unikv_writeoptions_t* options,
    const char* key, size_t keylen, const char* val, size_t vallen);

/* Adds a delete to a batch, in the keyspace of the options. */
void unikv_writebatch_delete_with(unikv_writebatch_t* batch, const unikv_writeoptions_t* options,
    const char* key, size_t keylen);

/* ==== More options of reads ==== */

/* After how many milliseconds a get fails with `unikv_timed_out`, counted from its call, and
   an iterator, counted from when it was made; 0 stands for never. It concerns the same calls
   as `unikv_readoptions_set_fill_cache`. The time is compared before each read from the
   device, so what is in memory is found in any case. */
void unikv_readoptions_set_timeout_ms(unikv_readoptions_t* options, uint64_t timeout_ms);

/* How many entries iterators that are made with the options read together at first, and after
   each seek; 0 stands for few at first, and more as they go on. */
void unikv_readoptions_set_read_ahead(unikv_readoptions_t* options, size_t entries);

/* ==== Reads into memory of the caller's ==== */

/* Copies the value of a key into `buffer`, at most `capacity` bytes of it, and its whole
   length into `*vallen`. 1 if it has one; else, and on failure, 0. No memory is allocated for
   C. */
unsigned char unikv_get_into(unikv_t* db, const unikv_readoptions_t* options, const char* key,
    size_t keylen, char* buffer, size_t capacity, size_t* vallen, char** errptr);

/* As `unikv_get_into`, of the bytes of the value from `offset` on; `*vallen` is how many were
   copied, 0 past the end. Of a large value little more is read than these. */
unsigned char unikv_get_range_into(unikv_t* db, const unikv_readoptions_t* options,
    const char* key, size_t keylen, uint64_t offset, char* buffer, size_t capacity,
    size_t* vallen, char** errptr);

/* The values of `count` keys, all as of one moment, one after the other in `buffer`; the
   length of each in `vallens[i]`, `SIZE_MAX` where the key has none. Returns their length in
   all: if it is more than `capacity`, nothing was copied. What is not in memory the device
   reads for many keys at once. 0 on failure. */
size_t unikv_multi_get(unikv_t* db, const unikv_readoptions_t* options, size_t count,
    const char* const* keys, const size_t* keylens, char* buffer, size_t capacity,
    size_t* vallens, char** errptr);

/* Whether a key has a value, without reading it. */
unsigned char unikv_contains(unikv_t* db, const unikv_readoptions_t* options, const char* key,
    size_t keylen, char** errptr);

/* The length of the value of a key in `*vallen`, without reading it. 1 if it has one. */
unsigned char unikv_value_length(unikv_t* db, const unikv_readoptions_t* options,
    const char* key, size_t keylen, size_t* vallen, char** errptr);

/* ==== More of iterators ==== */

/* Has iterators that are made with the options show only keys at or after this one; NULL
   stands for all. */
void unikv_readoptions_set_lower_bound(unikv_readoptions_t* options, const char* key,
    size_t keylen);

/* Has iterators that are made with the options show only keys before this one; NULL stands for
   all. */
void unikv_readoptions_set_upper_bound(unikv_readoptions_t* options, const char* key,
    size_t keylen);

/* Has iterators read values only when they are asked for (1): for those who want keys. If a
   value cannot be read, `unikv_iter_value` returns NULL, and the iterator is not valid any
   more. */
void unikv_readoptions_set_values_on_demand(unikv_readoptions_t* options, unsigned char yes);

/* Moves to the last entry at or before a key. */
void unikv_iter_seek_for_prev(unikv_iterator_t* iter, const char* k, size_t klen);

/* Shows the database as it is now. The iterator is not valid before it is moved with a seek. */
void unikv_iter_refresh(unikv_iterator_t* iter);

/* Copies entries from the one at hand on, as many as `buffer` has room for, and moves behind
   them: in one call what many calls of `unikv_iter_next`, `_key` and `_value` do. Each entry
   is the length of its key and that of its value, 4 bytes each in the machine's order, then
   the key and the value. Returns how many bytes were written, and in `*entries` how many
   entries: none at the end, where the iterator is not valid. If there is no room for even one,
   the bytes that it takes are returned, with 0 in `*entries`. `flags`: 1 to go backward, 2 for
   keys without values. On failure 0; entries before the damage are returned first. */
size_t unikv_iter_fill(unikv_iterator_t* iter, int flags, char* buffer, size_t capacity,
    size_t* entries, char** errptr);

/* ==== The first and the last entry ==== */

/* The entry with the least key, within the bounds of the options: key and value in memory that
   the caller frees, with their lengths. 1 if there is one; else, and on failure, 0, and NULL
   and 0 are put into all four places. */
unsigned char unikv_first_key_value(unikv_t* db, const unikv_readoptions_t* options, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* The entry with the greatest key, as `unikv_first_key_value`. */
unsigned char unikv_last_key_value(unikv_t* db, const unikv_readoptions_t* options, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* Removes the entry with the least key, and hands it out as `unikv_first_key_value` does. Each
   entry is taken once, however many threads take entries. Of the options the keyspace counts.
   If malloc fails, the entry has been removed. */
unsigned char unikv_pop_first(unikv_t* db, const unikv_writeoptions_t* options, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* Removes the entry with the greatest key, as `unikv_pop_first`. */
unsigned char unikv_pop_last(unikv_t* db, const unikv_writeoptions_t* options, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* As `unikv_pop_first`, of the keys from `start` to before `limit`; NULL stands for the first
   key, or for the end. */
unsigned char unikv_pop_first_in_range(unikv_t* db, const unikv_writeoptions_t* options,
    const char* start, size_t startlen, const char* limit, size_t limitlen, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* As `unikv_pop_last`, of the keys from `start` to before `limit`; NULL stands for the first
   key, or for the end. */
unsigned char unikv_pop_last_in_range(unikv_t* db, const unikv_writeoptions_t* options,
    const char* start, size_t startlen, const char* limit, size_t limitlen, char** key,
    size_t* keylen, char** val, size_t* vallen, char** errptr);

/* ==== Ranges of keys ==== */

/* Removes all keys from `start` to before `limit`, in one write that takes the time of a put;
   NULL stands for the first key, or for the end. */
void unikv_delete_range(unikv_t* db, const unikv_writeoptions_t* options, const char* start,
    size_t startlen, const char* limit, size_t limitlen, char** errptr);

/* Removes all keys that begin with a prefix, as `unikv_delete_range`. */
void unikv_delete_prefix(unikv_t* db, const unikv_writeoptions_t* options, const char* prefix,
    size_t prefixlen, char** errptr);

/* Adds the delete of a range to a batch, in the keyspace of the options. */
void unikv_writebatch_delete_range(unikv_writebatch_t* batch,
    const unikv_writeoptions_t* options, const char* start, size_t startlen, const char* limit,
    size_t limitlen);

/* Calls a function for each operation of a batch, in their order, with the number of its
   keyspace (0 for the default one). A time to live is in milliseconds, 0 where a put has none
   of its own, `UINT64_MAX` for ever. A range without an end has NULL for its limit. The
   functions must not use the batch, nor throw. */
void unikv_writebatch_iterate_all(const unikv_writebatch_t* batch, void* state,
    void (*put)(void*, uint32_t keyspace, const char* k, size_t klen, const char* v, size_t vlen, uint64_t ttl_ms),
    void (*deleted)(void*, uint32_t keyspace, const char* k, size_t klen),
    void (*deleted_range)(void*, uint32_t keyspace, const char* start, size_t startlen, const char* limit, size_t limitlen));

/* About how many bytes on disk serve the keys from `start` to before `limit`, in the keyspace
   of the options; NULL stands for the first key, or for the end. */
uint64_t unikv_approximate_size(unikv_t* db, const unikv_readoptions_t* options,
    const char* start, size_t startlen, const char* limit, size_t limitlen, char** errptr);

/* ==== Changes that depend on the value ==== */

/* Puts `val` in the place of the value of a key if that is `expected`; NULL stands for no
   value, on either side. 1 if it was; else, and on failure, 0, and nothing has changed. Of the
   options the keyspace counts. */
unsigned char unikv_compare_and_swap(unikv_t* db, const unikv_writeoptions_t* options,
    const char* key, size_t keylen, const char* expected, size_t expectedlen, const char* val,
    size_t vallen, char** errptr);

/* Adds `by` to the number that is the value of a key, 8 bytes, little-endian; no value counts
   as 0. The sum is in `*sum`. 1, or 0 on failure. Of the options the keyspace counts. */
unsigned char unikv_increment(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, int64_t by, int64_t* sum, char** errptr);

/* ==== Values that expire ==== */

/* How long the values live that are written, in milliseconds; 0 stands for what the keyspace
   says, `UINT64_MAX` for ever. */
void unikv_writeoptions_set_ttl_ms(unikv_writeoptions_t* options, uint64_t ttl_ms);

/* How long the value of a key lives from now on, in `*ttl_ms`: milliseconds, `UINT64_MAX` for
   ever. 1 if it has a value. */
unsigned char unikv_ttl_ms(unikv_t* db, const unikv_readoptions_t* options, const char* key,
    size_t keylen, uint64_t* ttl_ms, char** errptr);

/* Has the value of a key expire in `ttl_ms` milliseconds. 1 if it has a value. Of the options
   the keyspace counts, here and below. */
unsigned char unikv_expire(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, uint64_t ttl_ms, char** errptr);

/* Has the value of a key expire at a time, in milliseconds since 1970; a time that has passed
   removes the key. 1 if it has a value. */
unsigned char unikv_expire_at(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, uint64_t unix_ms, char** errptr);

/* Has the value of a key never expire. 1 if it would have. */
unsigned char unikv_clear_ttl(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, char** errptr);

/* ==== Transactions ==== */

/* Begins a transaction: `isolation` 0 is serializable, 1 is snapshot isolation. It reads the
   database as it is now, with what it writes itself. Keyspace and time to live are those of
   the options of each call; nobody waits for it. */
unikv_transaction_t* unikv_transaction_begin(unikv_t* db, int isolation, char** errptr);

/* Ends the handle, and undoes the transaction unless it has been committed. */
void unikv_transaction_destroy(unikv_transaction_t* txn);

/* Writes a value. */
void unikv_transaction_put(unikv_transaction_t* txn, const unikv_writeoptions_t* options,
    const char* key, size_t keylen, const char* val, size_t vallen, char** errptr);

/* Removes a key. */
void unikv_transaction_delete(unikv_transaction_t* txn, const unikv_writeoptions_t* options,
    const char* key, size_t keylen, char** errptr);

/* Removes all keys from `start` to before `limit`, as `unikv_delete_range`. */
void unikv_transaction_delete_range(unikv_transaction_t* txn,
    const unikv_writeoptions_t* options, const char* start, size_t startlen, const char* limit,
    size_t limitlen, char** errptr);

/* As `unikv_get`. */
char* unikv_transaction_get(unikv_transaction_t* txn, const unikv_readoptions_t* options,
    const char* key, size_t keylen, size_t* vallen, char** errptr);

/* As `unikv_transaction_get`; and the transaction conflicts, under either isolation, if
   another writes the key before it commits. */
char* unikv_transaction_get_for_update(unikv_transaction_t* txn,
    const unikv_readoptions_t* options, const char* key, size_t keylen, size_t* vallen,
    char** errptr);

/* An iterator over the transaction as it is now. */
unikv_iterator_t* unikv_transaction_create_iterator(unikv_transaction_t* txn,
    const unikv_readoptions_t* options);

/* Remembers what has been written so far. Savepoints lie on each other. */
void unikv_transaction_set_savepoint(unikv_transaction_t* txn, char** errptr);

/* Undoes what was written since the newest savepoint, and removes that. 1 if there was one. */
unsigned char unikv_transaction_rollback_to_savepoint(unikv_transaction_t* txn, char** errptr);

/* Removes the newest savepoint, and leaves what was written. 1 if there was one. */
unsigned char unikv_transaction_pop_savepoint(unikv_transaction_t* txn, char** errptr);

/* Commits everything that was written, or nothing: with `unikv_conflict` if another write came
   between, and then it is to be begun again. The transaction has ended in any case; its handle
   is still to be destroyed. Of the options the keyspace does not count. */
void unikv_transaction_commit(unikv_transaction_t* txn, const unikv_writeoptions_t* options,
    char** errptr);

/* ==== Following what another process writes ==== */

/* Opens the database in directory `name` for reading, beside a process that writes it, or
   without one. It takes no lock and changes nothing. Reads, iterators, snapshots and keyspaces
   that are found serve as of the last `unikv_refresh`; other calls fail. Every `refresh_ms`
   milliseconds a thread refreshes it; with 0 none does. Of the options `memory_budget` counts.
   It is closed with `unikv_close`. NULL on failure. */
unikv_t* unikv_open_secondary(const unikv_options_t* options, const char* name,
    uint64_t refresh_ms, char** errptr);

/* Has a database that is followed show what its writer has made visible. */
void unikv_refresh(unikv_t* db, char** errptr);

/* The number of the last write that a followed database shows. */
uint64_t unikv_secondary_seq(unikv_t* db, char** errptr);

/* How many writes its writer has made visible since; 0 where there is no writer. */
uint64_t unikv_secondary_lag(unikv_t* db, char** errptr);

/* ==== Following what changes ==== */

/* The token of all that is visible now, as a text to be freed: what is written later comes
   after it. The database must keep changes (option `change_window_bytes`). */
char* unikv_token(unikv_t* db, char** errptr);

/* The token after which all changes are kept that are kept at all, as `unikv_token`. */
char* unikv_oldest_token(unikv_t* db, char** errptr);

/* The changes after a token, in all keyspaces, in the order of the writes; NULL stands for the
   token of now. Only what is durable is shown; with 1 in `flags` all that is visible. NULL on
   failure: `unikv_history_gone` if what comes after the token is not kept any more. */
unikv_changes_t* unikv_changes_since(unikv_t* db, const char* token, int flags, char** errptr);

/* Ends the handle, also after its database was closed. */
void unikv_changes_destroy(unikv_changes_t* changes);

/* Moves to the next change, and waits for it for at most `wait_ms` milliseconds. 1 if it is
   there; else, and on failure, 0. A change is a whole batch, or something else that happened
   at once. */
unsigned char unikv_changes_next(unikv_changes_t* changes, uint64_t wait_ms, char** errptr);

/* The token after the newest change that was moved to: stored, it is where another process
   goes on. It stays until the next move. */
const char* unikv_changes_token(const unikv_changes_t* changes);

/* The commit tag of the change, which stays until the next move; NULL if it has none. */
const char* unikv_changes_commit_tag(const unikv_changes_t* changes, size_t* taglen);

/* Calls a function for each thing that the change has done, in their order, with the number of
   its keyspace (`unikv_keyspace_number`; 0 for the default one). `put`: the last number is the
   time when the value expires, in milliseconds since 1970, or 0. `deleted_range`: without an
   end, `limit` is NULL. `ingested`: sorted keys were ingested, and all from the first to the
   last one, which is named in the place of the limit, may be another; read them. `keyspace`:
   a keyspace was 1 made, 2 renamed, 3 given other options, 4 emptied (its number is `now` from
   then on) or 5 dropped; 1 and 2 have a name. The functions must not use `changes`, nor throw. */
void unikv_changes_show(const unikv_changes_t* changes, void* state,
    void (*put)(void*, uint32_t keyspace, const char* k, size_t klen, const char* v, size_t vlen, uint64_t ttl_ms),
    void (*deleted)(void*, uint32_t keyspace, const char* k, size_t klen),
    void (*deleted_range)(void*, uint32_t keyspace, const char* start, size_t startlen, const char* limit, size_t limitlen),
    void (*ingested)(void*, uint32_t keyspace, const char* start, size_t startlen, const char* limit, size_t limitlen),
    void (*keyspace)(void*, int what, uint32_t number, uint32_t now, const char* name, size_t namelen),
    char** errptr);

/* ==== Upkeep ==== */

/* Closes the database as `unikv_close` does, and returns the error of the last sync, or of
   background work that was not made up for. It is closed all the same. */
void unikv_close_checked(unikv_t* db, char** errptr);

/* Closes the database as `unikv_close_checked` does, and returns what had been made of it and
   was still open, as a JSON object, to be freed: the fields of `ClosingReport` in the Rust
   API, under the same names. An example, where other kinds are `Snapshot` and `Transaction`:
   `{"still_open":[{"kind":"Iterator","age":{"secs":7,"nanos":0}}]}`. NULL on failure; it is
   closed all the same. */
char* unikv_close_report_json(unikv_t* db, char** errptr);

/* Makes every write that has returned survive a power cut. */
void unikv_sync(unikv_t* db, char** errptr);

/* Writes what is in memory to files, and waits for that. Nobody needs to. */
void unikv_flush(unikv_t* db, char** errptr);

/* Merges everything, of all keyspaces, and waits for that. Nobody needs to. */
void unikv_compact(unikv_t* db, char** errptr);

/* Waits until the background has nothing to do. */
void unikv_wait_until_idle(unikv_t* db, char** errptr);

/* Makes a database of its own in the new directory `dir` that is what this one is now, all
   keyspaces included: in milliseconds, by links, on the same file system. */
void unikv_checkpoint(unikv_t* db, const char* dir, char** errptr);

/* Writes the newest versions of the keys from `start` to before `limit`, of the keyspace or
   the snapshot of the options, with the times when they expire, to the new file `path`, which
   is verified; NULL stands for the first key, or for the end. Returns how many keys there are. */
uint64_t unikv_export(unikv_t* db, const unikv_readoptions_t* options, const char* start,
    size_t startlen, const char* limit, size_t limitlen, const char* path, char** errptr);

/* Stores what an exported file holds, all at once and durably: newer than what was written
   before; other keys stay as they are. Nothing has changed if anything in it is damaged. Of
   the options the keyspace counts. Returns how many keys there are. */
uint64_t unikv_import(unikv_t* db, const unikv_writeoptions_t* options, const char* path,
    char** errptr);

/* The figures of the database, as a JSON object, to be freed: the fields of `Stats` in the
   Rust API, or of `SecondaryStats` for a database that is followed, under the same names.
   Bytes are numbers, times objects of `secs` and `nanos`, keys hexadecimal. */
char* unikv_stats_json(unikv_t* db, char** errptr);

/* Has iterators release the files that only they keep on disk. They go on as before. */
void unikv_release_views(unikv_t* db);

/* The version of UniKV. Not to be freed. */
const char* unikv_version(void);

#ifdef __cplusplus
}
#endif
#endif
