/* What UniKV has beside LevelDB's interface. */

#include "operations.h"

static void check_get(unikv_t* db, const unikv_readoptions_t* r, const char* key,
    const char* expected) {
    char* err = NULL;
    char buffer[64];
    size_t len = 77;
    unsigned char found =
        unikv_get_into(db, r, key, strlen(key), buffer, sizeof buffer, &len, &err);
    FINE(err);
    CHECK(found == (expected != NULL));
    CHECK(expected == NULL ? len == 0 : is(buffer, len, expected));
}

static void options_by_name(unikv_options_t* options) {
    char* err = NULL;
    unikv_options_set(options, "memory_budget", "64MiB", &err);
    FINE(err);
    unikv_options_set_create_if_missing(options, 1);
    unikv_options_set(options, "memory_budget", "lots", &err);
    FAILED(err, "`lots` is no value of the option `memory_budget`");
    unikv_options_set(options, "nosuch", "1", &err);
    FAILED(err, "there is no option `nosuch`");
}

static void buffers(unikv_t* db) {
    const char* keys[3] = {"one", "none", "three"};
    size_t key_lens[3] = {3, 4, 5}, lens[3], len, total;
    char buffer[64];
    char* err = NULL;
    put(db, NULL, "one", "1");
    put(db, NULL, "three", "333");
    put(db, NULL, "empty", "");
    check_get(db, NULL, "one", "1");
    check_get(db, NULL, "empty", "");
    check_get(db, NULL, "none", NULL);

    memset(buffer, 'x', sizeof buffer);
    CHECK(unikv_get_into(db, NULL, "three", 5, buffer, 2, &len, &err) == 1);
    FINE(err);
    CHECK(len == 3 && memcmp(buffer, "33x", 3) == 0);
    CHECK(unikv_get_into(db, NULL, "three", 5, NULL, 0, &len, &err) == 1 && len == 3);
    CHECK(unikv_get_range_into(db, NULL, "three", 5, 1, buffer, 64, &len, &err) == 1 && len == 2);
    CHECK(unikv_get_range_into(db, NULL, "three", 5, 9, buffer, 64, &len, &err) == 1 && len == 0);
    CHECK(unikv_get_range_into(db, NULL, "none", 4, 0, buffer, 64, &len, &err) == 0 && len == 0);
    CHECK(unikv_contains(db, NULL, "empty", 5, &err) == 1);
    CHECK(unikv_contains(db, NULL, "none", 4, &err) == 0);
    CHECK(unikv_value_length(db, NULL, "three", 5, &len, &err) == 1 && len == 3);
    CHECK(unikv_value_length(db, NULL, "none", 4, &len, &err) == 0 && len == 0);
    FINE(err);

    total = unikv_multi_get(db, NULL, 3, keys, key_lens, buffer, 4, lens, &err);
    FINE(err);
    CHECK(total == 4 && memcmp(buffer, "1333", 4) == 0);
    CHECK(lens[0] == 1 && lens[1] == SIZE_MAX && lens[2] == 3);
    memset(buffer, 'x', sizeof buffer);
    total = unikv_multi_get(db, NULL, 3, keys, key_lens, buffer, 3, lens, &err);
    CHECK(total == 4 && lens[2] == 3 && buffer[0] == 'x');
    CHECK(unikv_multi_get(db, NULL, 0, NULL, NULL, NULL, 0, NULL, &err) == 0);
    FINE(err);
    CHECK(unikv_multi_get(db, NULL, 3, NULL, key_lens, buffer, 3, lens, &err) == 0);
    FAILED(err, "null");
}

/* The entries in a buffer, as `key=value;`. */
static void entries_in_words(const char* buffer, size_t bytes, char* words) {
    size_t at = 0;
    while (at < bytes) {
        uint32_t key_len, value_len;
        memcpy(&key_len, buffer + at, 4);
        memcpy(&value_len, buffer + at + 4, 4);
        at += 8;
        words += sprintf(words, "%.*s=%.*s;", (int)key_len, buffer + at, (int)value_len,
            buffer + at + key_len);
        at += key_len + value_len;
    }
    CHECK(at == bytes);
    *words = 0;
}

static void iterators(unikv_t* db) {
    char* err = NULL;
    char buffer[256], words[256];
    size_t entries, bytes, len;
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_iterator_t* iter;
    put(db, NULL, "a", "1");
    put(db, NULL, "b", "2");
    put(db, NULL, "c", "3");
    put(db, NULL, "d", "4");
    put(db, NULL, "e", "5");
    unikv_readoptions_set_lower_bound(r, "b", 1);
    unikv_readoptions_set_upper_bound(r, "e", 1);
    iter = unikv_create_iterator(db, r);

    unikv_iter_seek_to_first(iter);
    bytes = unikv_iter_fill(iter, 0, buffer, sizeof buffer, &entries, &err);
    FINE(err);
    entries_in_words(buffer, bytes, words);
    CHECK(entries == 3 && strcmp(words, "b=2;c=3;d=4;") == 0);
    CHECK(!unikv_iter_valid(iter));
    CHECK(unikv_iter_fill(iter, 0, buffer, sizeof buffer, &entries, &err) == 0 && entries == 0);
    FINE(err);

    unikv_iter_seek_to_last(iter);
    bytes = unikv_iter_fill(iter, 1 | 2, buffer, sizeof buffer, &entries, &err);
    entries_in_words(buffer, bytes, words);
    CHECK(entries == 3 && strcmp(words, "d=;c=;b=;") == 0);

    unikv_iter_seek(iter, "a", 1);
    bytes = unikv_iter_fill(iter, 0, buffer, 25, &entries, &err);
    entries_in_words(buffer, bytes, words);
    CHECK(entries == 2 && strcmp(words, "b=2;c=3;") == 0);
    CHECK(is(unikv_iter_key(iter, &len), 1, "d"));
    CHECK(unikv_iter_fill(iter, 0, buffer, 9, &entries, &err) == 10 && entries == 0);
    CHECK(unikv_iter_valid(iter));
    CHECK(unikv_iter_fill(iter, 4, buffer, 9, &entries, &err) == 0);
    FAILED(err, "no such flag");

    unikv_iter_seek_for_prev(iter, "z", 1);
    CHECK(is(unikv_iter_key(iter, &len), 1, "d"));
    unikv_iter_seek_for_prev(iter, "cc", 2);
    CHECK(is(unikv_iter_key(iter, &len), 1, "c"));
    unikv_iter_seek_for_prev(iter, "a", 1);
    CHECK(!unikv_iter_valid(iter));
    unikv_iter_seek(iter, "e", 1);
    CHECK(!unikv_iter_valid(iter));
    put(db, NULL, "bb", "22");
    unikv_iter_refresh(iter);
    CHECK(!unikv_iter_valid(iter));
    unikv_iter_seek(iter, "ba", 2);
    CHECK(is(unikv_iter_value(iter, &len), 2, "22"));
    unikv_iter_destroy(iter);

    unikv_readoptions_set_values_on_demand(r, 1);
    unikv_readoptions_set_lower_bound(r, NULL, 0);
    iter = unikv_create_iterator(db, r);
    unikv_release_views(db);
    for (bytes = 0, unikv_iter_seek_to_first(iter); unikv_iter_valid(iter);
         unikv_iter_next(iter)) {
        bytes++;
    }
    CHECK(bytes == 5);
    unikv_iter_seek_to_first(iter);
    CHECK(is(unikv_iter_value(iter, &len), 1, "1"));
    unikv_iter_destroy(iter);
    unikv_readoptions_destroy(r);
}

static void keyspaces(unikv_t* db, unikv_t* other) {
    char* err = NULL;
    char* names;
    size_t len;
    unikv_options_t* options = unikv_options_create();
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_keyspace_t *users, *found;
    const unikv_snapshot_t* snapshot = unikv_create_snapshot(db);

    CHECK(unikv_keyspace_find(db, "users", &err) == NULL);
    FINE(err);
    unikv_options_set(options, "inline_value_bytes", "1KiB", &err);
    FINE(err);
    users = unikv_keyspace_open(db, "users", options, &err);
    FINE(err);
    unikv_options_set(options, "durability", "sync", &err);
    FINE(err);
    CHECK(unikv_keyspace_open(db, "mails", options, &err) == NULL);
    FAILED(err, "`durability` is not for a keyspace");

    unikv_readoptions_set_keyspace(r, users);
    unikv_writeoptions_set_keyspace(w, users);
    put(db, w, "a", "Ada");
    check_get(db, r, "a", "Ada");
    check_get(db, NULL, "a", "1");
    unikv_readoptions_set_snapshot(r, snapshot);
    check_get(db, r, "a", NULL);
    unikv_readoptions_set_snapshot(r, NULL);
    unikv_release_snapshot(db, snapshot);

    unikv_writebatch_put(batch, "a", 1, "11", 2);
    unikv_writebatch_put_with(batch, w, "b", 1, "Bob", 3);
    unikv_writebatch_delete_with(batch, w, "a", 1);
    unikv_write(db, w, batch, &err);
    FAILED(err, "write options with a keyspace");
    unikv_write(db, NULL, batch, &err);
    FINE(err);
    check_get(db, NULL, "a", "11");
    check_get(db, r, "a", NULL);
    check_get(db, r, "b", "Bob");
    unikv_write(other, NULL, batch, &err);
    CHECK(unikv_last_error_kind() == unikv_invalid_argument ||
          unikv_last_error_kind() == unikv_no_such_keyspace);
    FAILED(err, "");
    CHECK(unikv_get(other, r, "b", 1, &len, &err) == NULL);
    FAILED(err, "the keyspace is of another database");
    put(db, NULL, "a", "1");

    unikv_keyspace_rename(users, "people", &err);
    FINE(err);
    found = unikv_keyspace_find(db, "people", &err);
    CHECK(found != NULL);
    unikv_keyspace_close(found);
    names = unikv_keyspaces_json(db, &err);
    CHECK(strcmp(names, "[\"default\",\"people\"]") == 0);
    unikv_free(names);
    CHECK(unikv_approximate_size(db, r, NULL, 0, NULL, 0, &err) == 0);
    unikv_keyspace_truncate(users, &err);
    FINE(err);
    check_get(db, r, "b", NULL);
    unikv_keyspace_drop(users, &err);
    FINE(err);
    unikv_keyspace_close(users);
    unikv_put(db, w, "a", 1, "b", 1, &err);
    CHECK(unikv_last_error_kind() == unikv_no_such_keyspace);
    FAILED(err, "NotFound: ");

    unikv_writebatch_destroy(batch);
    unikv_options_destroy(options);
    unikv_readoptions_destroy(r);
    unikv_writeoptions_destroy(w);
}

static char shown[256];
static void on_put(void* state, uint32_t keyspace, const char* k, size_t klen, const char* v,
    size_t vlen, uint64_t ttl_ms) {
    sprintf((char*)state + strlen(state), "put %u %.*s=%.*s %lu;", keyspace, (int)klen, k,
        (int)vlen, v, (unsigned long)ttl_ms);
}

static void ranges(unikv_t* db) {
    char* err = NULL;
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_delete_range(db, NULL, "b", 1, "d", 1, &err);
    FINE(err);
    check_get(db, NULL, "a", "1");
    check_get(db, NULL, "b", NULL);
    check_get(db, NULL, "d", "4");
    unikv_delete_prefix(db, NULL, "d", 1, &err);
    FINE(err);
    check_get(db, NULL, "d", NULL);
    unikv_writeoptions_set_ttl_ms(w, 60000);
    unikv_writebatch_put(batch, "k", 1, "v", 1);
    unikv_writebatch_put_with(batch, w, "l", 1, "w", 1);
    unikv_writebatch_delete(batch, "k", 1);
    unikv_writebatch_delete_range(batch, NULL, "o", 1, "p", 1);
    unikv_writebatch_delete_range(batch, NULL, "t", 1, NULL, 0);
    unikv_writebatch_iterate_all(batch, shown, on_put, on_delete, on_range);
    CHECK(strcmp(shown,
              "put 0 k=v 0;put 0 l=w 60000;delete 0 k;range 0 o-p;range 0 t-;") == 0);
    unikv_write(db, NULL, batch, &err);
    FINE(err);
    check_get(db, NULL, "one", NULL);
    check_get(db, NULL, "three", NULL);
    check_get(db, NULL, "l", "w");
    unikv_writebatch_destroy(batch);
    unikv_writeoptions_destroy(w);
}

static void expiry(unikv_t* db) {
    char* err = NULL;
    uint64_t ttl;
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    CHECK(unikv_ttl_ms(db, NULL, "l", 1, &ttl, &err) == 1 && ttl > 0 && ttl <= 60000);
    CHECK(unikv_clear_ttl(db, NULL, "l", 1, &err) == 1);
    CHECK(unikv_ttl_ms(db, NULL, "l", 1, &ttl, &err) == 1 && ttl == UINT64_MAX);
    CHECK(unikv_expire(db, NULL, "l", 1, 1000000, &err) == 1);
    CHECK(unikv_ttl_ms(db, NULL, "l", 1, &ttl, &err) == 1 && ttl > 60000 && ttl <= 1000000);
    CHECK(unikv_expire_at(db, NULL, "l", 1, 1000, &err) == 1);
    CHECK(unikv_ttl_ms(db, NULL, "l", 1, &ttl, &err) == 0 && ttl == 0);
    CHECK(unikv_expire_at(db, NULL, "none", 4, UINT64_MAX, &err) == 0);
    FINE(err);
    check_get(db, NULL, "l", NULL);
    unikv_writeoptions_set_ttl_ms(w, UINT64_MAX);
    unikv_writeoptions_set_no_wait(w, 1);
    put(db, w, "for ever", "and a day");
    CHECK(unikv_ttl_ms(db, NULL, "for ever", 8, &ttl, &err) == 1 && ttl == UINT64_MAX);
    CHECK(unikv_expire(db, NULL, "for ever", 8, 0, &err) == 0);
    FAILED(err, "Invalid argument: ");
    unikv_writeoptions_destroy(w);
}

static void changes(unikv_t* db) {
    char* err = NULL;
    int64_t sum = 0;
    CHECK(unikv_compare_and_swap(db, NULL, "owner", 5, NULL, 0, "me", 2, &err) == 1);
    CHECK(unikv_compare_and_swap(db, NULL, "owner", 5, NULL, 0, "you", 3, &err) == 0);
    FINE(err);
    check_get(db, NULL, "owner", "me");
    CHECK(unikv_compare_and_swap(db, NULL, "owner", 5, "me", 2, NULL, 0, &err) == 1);
    check_get(db, NULL, "owner", NULL);
    CHECK(unikv_increment(db, NULL, "count", 5, 40, &sum, &err) == 1 && sum == 40);
    CHECK(unikv_increment(db, NULL, "count", 5, -41, &sum, &err) == 1 && sum == -1);
    FINE(err);
    put(db, NULL, "count", "no number");
    CHECK(unikv_increment(db, NULL, "count", 5, 1, &sum, &err) == 0);
    FAILED(err, "is no number");
}

static void transactions(unikv_t* db, unikv_t* other) {
    char* err = NULL;
    char* value;
    size_t len, entries = 0;
    unikv_iterator_t* iter;
    unikv_readoptions_t* r = unikv_readoptions_create();
    const unikv_snapshot_t* snapshot = unikv_create_snapshot(db);
    unikv_keyspace_t* foreign = unikv_keyspace_open(other, "foreign", NULL, &err);
    unikv_transaction_t* txn = unikv_transaction_begin(db, 0, &err);
    unikv_transaction_t* second = unikv_transaction_begin(db, 1, &err);
    FINE(err);

    unikv_transaction_put(txn, NULL, "from", 4, "80", 2, &err);
    unikv_transaction_set_savepoint(txn, &err);
    unikv_transaction_put(txn, NULL, "to", 2, "10", 2, &err);
    unikv_transaction_delete(txn, NULL, "for ever", 8, &err);
    CHECK(unikv_transaction_rollback_to_savepoint(txn, &err) == 1);
    CHECK(unikv_transaction_pop_savepoint(txn, &err) == 0);
    unikv_transaction_delete_range(txn, NULL, "c", 1, "d", 1, &err);
    FINE(err);
    value = unikv_transaction_get(txn, NULL, "from", 4, &len, &err);
    CHECK(is(value, len, "80"));
    unikv_free(value);
    check_get(db, NULL, "from", NULL);
    iter = unikv_transaction_create_iterator(txn, NULL);
    for (unikv_iter_seek_to_first(iter); unikv_iter_valid(iter); unikv_iter_next(iter)) {
        entries++;
    }
    CHECK(entries == 5);
    unikv_iter_destroy(iter);

    CHECK(unikv_transaction_get_for_update(second, NULL, "from", 4, &len, &err) == NULL);
    unikv_transaction_put(second, NULL, "x", 1, "y", 1, &err);
    unikv_readoptions_set_snapshot(r, snapshot);
    CHECK(unikv_transaction_get(second, r, "x", 1, &len, &err) == NULL);
    FAILED(err, "with a snapshot");
    unikv_readoptions_set_snapshot(r, NULL);
    unikv_release_snapshot(db, snapshot);
    unikv_readoptions_set_keyspace(r, foreign);
    CHECK(unikv_transaction_get(second, r, "x", 1, &len, &err) == NULL);
    FAILED(err, "another database");

    unikv_transaction_commit(txn, NULL, &err);
    FINE(err);
    unikv_transaction_commit(txn, NULL, &err);
    FAILED(err, "has been committed");
    unikv_transaction_commit(second, NULL, &err);
    CHECK(unikv_last_error_kind() == unikv_conflict);
    FAILED(err, "conflicts");
    check_get(db, NULL, "from", "80");
    check_get(db, NULL, "x", NULL);
    unikv_transaction_destroy(txn);
    unikv_transaction_destroy(second);
    CHECK(unikv_transaction_begin(db, 2, &err) == NULL);
    FAILED(err, "no such isolation");
    unikv_readoptions_destroy(r);
    unikv_keyspace_close(foreign);
}

int main(int argc, char** argv) {
    const char* dir = argv[1];
    char* err = NULL;
    unikv_t *db, *other;
    unikv_options_t* options = unikv_options_create();
    CHECK(argc == 2);
    CHECK(unikv_version()[0] != 0);
    options_by_name(options);
    db = unikv_open(options, in(dir, "db"), &err);
    FINE(err);
    other = unikv_open(options, in(dir, "other"), &err);
    FINE(err);
    buffers(db);
    iterators(db);
    keyspaces(db, other);
    ranges(db);
    expiry(db);
    changes(db);
    transactions(db, other);

    unikv_sync(db, &err);
    unikv_flush(db, &err);
    unikv_compact(db, &err);
    unikv_wait_until_idle(db, &err);
    FINE(err);
    unikv_checkpoint(db, in(dir, "checkpoint"), &err);
    FINE(err);
    unikv_checkpoint(db, in(dir, "checkpoint"), &err);
    FAILED(err, "checkpoint");
    unikv_close_checked(db, &err);
    FINE(err);
    unikv_close_checked(db, &err);
    FAILED(err, "has been closed");
    db = unikv_open(options, in(dir, "checkpoint"), &err);
    FINE(err);
    check_get(db, NULL, "from", "80");
    unikv_close(db);
    unikv_close(other);
    unikv_options_destroy(options);
    puts("passed");
    return 0;
}
