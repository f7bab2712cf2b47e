/* Opening by what may be there, the first and the last entry, options of reads, and keyspaces that
   are made together. */

#include "unikv_check.h"

/* An entry as `key=value`, which is freed; what a call has returned says whether there is one. */
static char* key;
static char* value;
static size_t key_len, value_len;

static void entry_is(unsigned char found, char** err, const char* expected) {
    char shown[64] = "";
    FINE(*err);
    CHECK(found == (expected != NULL));
    if (expected == NULL) {
        CHECK(key == NULL && key_len == 0 && value == NULL && value_len == 0);
        return;
    }
    CHECK(key[key_len] == 0 && value[value_len] == 0);
    sprintf(shown, "%.*s=%.*s", (int)key_len, key, (int)value_len, value);
    unikv_free(key);
    unikv_free(value);
    if (strcmp(shown, expected) != 0) {
        fprintf(stderr, "%s, not %s\n", shown, expected);
        exit(1);
    }
}

#define ENTRY &key, &key_len, &value, &value_len, &err

static void opening(const char* dir) {
    char* err = NULL;
    size_t len;
    char* found;
    unikv_options_t* options = unikv_options_create();
    unikv_t* db;
    CHECK(unikv_open_existing(NULL, in(dir, "opened"), &err) == NULL);
    CHECK(unikv_last_error_kind() == unikv_not_found);
    FAILED(err, "NotFound: ");
    /* The two options of LevelDB do not count. */
    unikv_options_set_create_if_missing(options, 1);
    CHECK(unikv_open_existing(options, in(dir, "opened"), &err) == NULL);
    FAILED(err, "NotFound: ");
    db = unikv_create_new(NULL, in(dir, "opened"), &err);
    FINE(err);
    put(db, NULL, "a", "1");
    unikv_close(db);
    CHECK(unikv_create_new(options, in(dir, "opened"), &err) == NULL);
    FAILED(err, "Invalid argument: ");
    unikv_options_set_error_if_exists(options, 1);
    db = unikv_open_existing(options, in(dir, "opened"), &err);
    FINE(err);
    unikv_close(db);
    CHECK(unikv_create_new(NULL, NULL, &err) == NULL);
    FAILED(err, "null");
    CHECK(unikv_open_existing((unikv_options_t*)dir, dir, &err) == NULL);
    FAILED(err, "unikv_options_t");

    db = unikv_open_in_memory(NULL, &err);
    FINE(err);
    put(db, NULL, "a", "1");
    unikv_checkpoint(db, in(dir, "copied"), &err);
    FINE(err);
    unikv_close(db);
    db = unikv_open_existing(NULL, in(dir, "copied"), &err);
    FINE(err);
    found = unikv_get(db, NULL, "a", 1, &len, &err);
    CHECK(is(found, len, "1"));
    unikv_free(found);
    unikv_close(db);
    unikv_options_destroy(options);
}

static void ends(unikv_t* db) {
    char* err = NULL;
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_keyspace_t* tasks = unikv_keyspace_open(db, "tasks", NULL, &err);
    const unikv_snapshot_t* snapshot;
    FINE(err);
    entry_is(unikv_first_key_value(db, NULL, ENTRY), &err, NULL);
    entry_is(unikv_pop_last(db, NULL, ENTRY), &err, NULL);
    put(db, NULL, "a", "1");
    put(db, NULL, "b", "2");
    put(db, NULL, "c", "");
    unikv_writeoptions_set_keyspace(w, tasks);
    put(db, w, "7", "sweep");
    snapshot = unikv_create_snapshot(db);

    entry_is(unikv_first_key_value(db, NULL, ENTRY), &err, "a=1");
    entry_is(unikv_last_key_value(db, NULL, ENTRY), &err, "c=");
    unikv_readoptions_set_lower_bound(r, "b", 1);
    entry_is(unikv_first_key_value(db, r, ENTRY), &err, "b=2");
    unikv_readoptions_set_upper_bound(r, "c", 1);
    entry_is(unikv_last_key_value(db, r, ENTRY), &err, "b=2");
    /* No key lies between bounds that are the wrong way round. */
    unikv_readoptions_set_upper_bound(r, "a", 1);
    entry_is(unikv_last_key_value(db, r, ENTRY), &err, NULL);
    unikv_readoptions_set_lower_bound(r, NULL, 0);
    unikv_readoptions_set_upper_bound(r, NULL, 0);
    unikv_readoptions_set_keyspace(r, tasks);
    entry_is(unikv_last_key_value(db, r, ENTRY), &err, "7=sweep");

    entry_is(unikv_pop_first(db, NULL, ENTRY), &err, "a=1");
    entry_is(unikv_pop_last(db, NULL, ENTRY), &err, "c=");
    entry_is(unikv_pop_first(db, w, ENTRY), &err, "7=sweep");
    entry_is(unikv_pop_first(db, w, ENTRY), &err, NULL);
    entry_is(unikv_first_key_value(db, r, ENTRY), &err, NULL);
    unikv_readoptions_set_snapshot(r, snapshot);
    entry_is(unikv_first_key_value(db, r, ENTRY), &err, "7=sweep");
    unikv_release_snapshot(db, snapshot);

    put(db, NULL, "d", "4");
    put(db, NULL, "e", "5");
    entry_is(unikv_pop_first_in_range(db, NULL, "c", 1, NULL, 0, ENTRY), &err, "d=4");
    entry_is(unikv_pop_last_in_range(db, NULL, NULL, 0, "c", 1, ENTRY), &err, "b=2");
    entry_is(unikv_pop_last_in_range(db, NULL, "z", 1, "a", 1, ENTRY), &err, NULL);
    entry_is(unikv_pop_first_in_range(db, w, NULL, 0, NULL, 0, ENTRY), &err, NULL);
    entry_is(unikv_pop_last(db, NULL, ENTRY), &err, "e=5");

    CHECK(unikv_pop_first(db, NULL, NULL, &key_len, &value, &value_len, &err) == 0);
    FAILED(err, "null");
    CHECK(unikv_pop_first(NULL, NULL, ENTRY) == 0);
    FAILED(err, "no unikv_t");
    CHECK(unikv_last_key_value(db, r, ENTRY) == 0);
    FAILED(err, "the snapshot has been released");
    CHECK(key == NULL && value == NULL && key_len == 0 && value_len == 0);
    unikv_keyspace_close(tasks);
    unikv_readoptions_destroy(r);
    unikv_writeoptions_destroy(w);
}

/* The bytes in the read cache. */
static long long cached(unikv_t* db) {
    char* err = NULL;
    char* json = unikv_stats_json(db, &err);
    const char* at;
    long long bytes;
    FINE(err);
    at = strstr(json, "\"cache_bytes\":");
    CHECK(at != NULL);
    bytes = atoll(at + strlen("\"cache_bytes\":"));
    unikv_free(json);
    return bytes;
}

/* Walks over everything; how many entries there were. */
static size_t walk(unikv_t* db, const unikv_readoptions_t* r, char** err) {
    size_t entries = 0;
    unikv_iterator_t* iter = unikv_create_iterator(db, r);
    for (unikv_iter_seek_to_first(iter); unikv_iter_valid(iter); unikv_iter_next(iter)) {
        entries++;
    }
    unikv_iter_get_error(iter, err);
    unikv_iter_destroy(iter);
    return entries;
}

/* Reads every hundredth key, each of which has a value of this length. */
static void get_some(unikv_t* db, const unikv_readoptions_t* r, size_t expected) {
    char* err = NULL;
    char name[16];
    size_t len, at;
    for (at = 0; at < 4000; at += 100) {
        sprintf(name, "key%08u", (unsigned)at);
        unikv_free(unikv_get(db, r, name, 11, &len, &err));
        FINE(err);
        CHECK(len == expected);
    }
}

static void reading(const char* dir) {
    char* err = NULL;
    char name[16], text[600];
    size_t len, entries = 4000, at;
    long long before;
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_transaction_t* txn;
    unikv_t* db = unikv_create_new(NULL, in(dir, "read"), &err);
    FINE(err);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (at = 0; at < entries; at++) {
        sprintf(name, "key%08u", (unsigned)at);
        put(db, NULL, name, text);
    }
    unikv_compact(db, &err);
    unikv_close_checked(db, &err);
    FINE(err);
    db = unikv_open_existing(NULL, in(dir, "read"), &err);
    FINE(err);

    unikv_readoptions_set_fill_cache(r, 0);
    unikv_readoptions_set_read_ahead(r, 100);
    CHECK(walk(db, r, &err) == entries);
    unikv_wait_until_idle(db, &err);
    FINE(err);
    /* By now the lists of blocks are in the cache, which stay there in any case. */
    before = cached(db);
    get_some(db, r, sizeof text - 1);
    CHECK(cached(db) - before < (long long)sizeof text);

    /* What is not in memory is not waited for, and what is there is found. */
    unikv_readoptions_set_timeout_ms(r, 1);
    unikv_readoptions_set_read_ahead(r, 0);
    CHECK(walk(db, r, &err) <= entries);
    if (err != NULL) {
        CHECK(unikv_last_error_kind() == unikv_timed_out);
        FAILED(err, "IO error: ");
    }
    unikv_readoptions_set_timeout_ms(r, 0);
    unikv_readoptions_set_fill_cache(r, 1);
    CHECK(walk(db, r, &err) == entries);
    FINE(err);
    get_some(db, r, sizeof text - 1);
    CHECK(cached(db) - before > 20 * (long long)sizeof text);
    unikv_readoptions_set_timeout_ms(r, UINT64_MAX);
    txn = unikv_transaction_begin(db, 0, &err);
    unikv_free(unikv_transaction_get(txn, r, "key00000007", 11, &len, &err));
    FINE(err);
    CHECK(len == sizeof text - 1);
    unikv_transaction_destroy(txn);
    unikv_close_checked(db, &err);
    FINE(err);
    unikv_readoptions_destroy(r);
}

static void keyspaces(unikv_t* db, unikv_t* other) {
    char* err = NULL;
    char* shown;
    const char* names[3] = {"users", "mails", "visits"};
    const char* unnamed[2] = {"more", NULL};
    unikv_keyspace_t *made[3], *again[2];
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_options_t* options = unikv_options_create();

    unikv_options_set(options, "default_ttl", "1h", &err);
    FINE(err);
    unikv_create_keyspaces(db, options, 3, names, made, &err);
    FINE(err);
    shown = unikv_keyspaces_json(db, &err);
    CHECK(strcmp(shown, "[\"default\",\"tasks\",\"users\",\"mails\",\"visits\"]") == 0);
    unikv_free(shown);
    unikv_writeoptions_set_keyspace(w, made[1]);
    put(db, w, "1", "hello");
    /* Those that are there are found. */
    unikv_create_keyspaces(db, NULL, 2, names, again, &err);
    FINE(err);
    CHECK(unikv_keyspace_number(again[1]) == unikv_keyspace_number(made[1]));
    unikv_keyspace_close(again[0]);
    unikv_keyspace_close(again[1]);

    again[0] = again[1] = made[0];
    unikv_create_keyspaces(db, NULL, 2, unnamed, again, &err);
    FAILED(err, "null was passed for a string");
    CHECK(again[0] == NULL && again[1] == NULL);
    unikv_create_keyspaces(db, NULL, 2, NULL, again, &err);
    FAILED(err, "null");
    unikv_create_keyspaces(db, NULL, 2, names, NULL, &err);
    FAILED(err, "null");
    unikv_create_keyspaces(db, NULL, 0, NULL, NULL, &err);
    FINE(err);

    again[0] = made[0];
    again[1] = NULL;
    unikv_drop_keyspaces(db, 2, again, &err);
    FAILED(err, "no unikv_keyspace_t");
    again[1] = unikv_keyspace_open(other, "users", NULL, &err);
    unikv_drop_keyspaces(db, 2, again, &err);
    FAILED(err, "the keyspace is of another database");
    unikv_keyspace_close(again[1]);
    unikv_drop_keyspaces(db, 0, NULL, &err);
    FINE(err);
    unikv_drop_keyspaces(db, 2, made, &err);
    FINE(err);
    shown = unikv_keyspaces_json(db, &err);
    CHECK(strcmp(shown, "[\"default\",\"tasks\",\"visits\"]") == 0);
    unikv_free(shown);
    unikv_put(db, w, "1", 1, "hello", 5, &err);
    CHECK(unikv_last_error_kind() == unikv_no_such_keyspace);
    FAILED(err, "NotFound: ");
    unikv_keyspace_close(made[0]);
    unikv_keyspace_close(made[1]);
    unikv_keyspace_close(made[2]);
    unikv_options_destroy(options);
    unikv_writeoptions_destroy(w);
}

int main(int argc, char** argv) {
    char* err = NULL;
    unikv_t *db, *other;
    CHECK(argc == 2);
    opening(argv[1]);
    db = unikv_open_in_memory(NULL, &err);
    FINE(err);
    other = unikv_open_in_memory(NULL, &err);
    FINE(err);
    ends(db);
    keyspaces(db, other);
    unikv_close(db);
    unikv_close(other);
    reading(argv[1]);
    puts("passed");
    return 0;
}
