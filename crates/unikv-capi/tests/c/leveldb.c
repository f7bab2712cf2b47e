/* All of LevelDB's interface, by its names, as a program written for LevelDB uses it. */

#include "check.h"
#include "leveldb/c.h"

static char path[4096];

static const char* in(const char* dir, const char* name) {
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int destroyed = 0;
static void destroy(void* state) {
    CHECK(state == &destroyed);
    destroyed++;
}

/* Bytewise, but written in another way than ours. */
static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    size_t i = 0;
    CHECK(state == &destroyed);
    for (; i < alen && i < blen; i++) {
        unsigned char x = (unsigned char)a[i], y = (unsigned char)b[i];
        if (x != y) return x < y ? -5 : 5;
    }
    return alen == blen ? 0 : alen < blen ? -5 : 5;
}

static int reversed(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    return compare(state, b, blen, a, alen);
}

static int signed_bytes(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    size_t i = 0;
    (void)state;
    for (; i < alen && i < blen; i++) {
        signed char x = (signed char)a[i], y = (signed char)b[i];
        if (x != y) return x < y ? -1 : 1;
    }
    return alen == blen ? 0 : alen < blen ? -1 : 1;
}

static const char* name(void* state) {
    (void)state;
    return "test.order";
}

static const char* other_name(void* state) {
    (void)state;
    return "another.order";
}

static char* create_filter(void* state, const char* const* keys, const size_t* lens, int count,
    size_t* filter_length) {
    (void)state, (void)keys, (void)lens, (void)count, (void)filter_length;
    CHECK(!"a filter policy was asked");
    return NULL;
}

static unsigned char may_match(void* state, const char* key, size_t len, const char* filter,
    size_t filter_len) {
    (void)state, (void)key, (void)len, (void)filter, (void)filter_len;
    CHECK(!"a filter policy was asked");
    return 0;
}

static void check_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
    const char* expected) {
    char* err = NULL;
    size_t len = 77;
    char* value = leveldb_get(db, options, key, strlen(key), &len, &err);
    FINE(err);
    if (expected == NULL) {
        CHECK(value == NULL && len == 0);
    } else {
        CHECK(is(value, len, expected));
        CHECK(value[len] == 0);
    }
    leveldb_free(value);
}

static void put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
    const char* value) {
    char* err = NULL;
    leveldb_put(db, options, key, strlen(key), value, strlen(value), &err);
    FINE(err);
}

static int shown = 0;
static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    CHECK(state == &shown);
    CHECK(shown == 0 ? is(k, klen, "b") && is(v, vlen, "2") : is(k, klen, "c") && vlen == 0);
    shown++;
}
static void on_delete(void* state, const char* k, size_t klen) {
    CHECK(state == &shown && shown == 2 && is(k, klen, "a"));
    shown++;
}

static void batches(leveldb_t* db, const leveldb_readoptions_t* r,
    const leveldb_writeoptions_t* w) {
    char* err = NULL;
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_t* more = leveldb_writebatch_create();
    put(db, w, "a", "1");
    leveldb_writebatch_put(batch, "lost", 4, "x", 1);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "b", 1, "2", 1);
    leveldb_writebatch_put(batch, "c", 1, NULL, 0);
    leveldb_writebatch_delete(more, "a", 1);
    leveldb_writebatch_append(batch, more);
    leveldb_writebatch_destroy(more);
    leveldb_writebatch_iterate(batch, &shown, on_put, on_delete);
    CHECK(shown == 3);
    leveldb_write(db, w, batch, &err);
    FINE(err);
    leveldb_writebatch_destroy(batch);
    check_get(db, r, "a", NULL);
    check_get(db, r, "b", "2");
    check_get(db, r, "c", "");
    check_get(db, r, "lost", NULL);
}

static void on_entry(leveldb_iterator_t* iter, const char* key, const char* value) {
    size_t len;
    const char* bytes;
    CHECK(leveldb_iter_valid(iter));
    bytes = leveldb_iter_key(iter, &len);
    CHECK(is(bytes, len, key));
    bytes = leveldb_iter_value(iter, &len);
    CHECK(is(bytes, len, value));
}

static void iterators(leveldb_t* db, const leveldb_readoptions_t* r,
    const leveldb_writeoptions_t* w) {
    char* err = NULL;
    size_t len = 77;
    leveldb_iterator_t* iter = leveldb_create_iterator(db, r);
    put(db, w, "later", "not seen");
    CHECK(!leveldb_iter_valid(iter));
    CHECK(leveldb_iter_key(iter, &len) == NULL && len == 0);
    leveldb_iter_seek_to_first(iter);
    on_entry(iter, "b", "2");
    leveldb_iter_next(iter);
    on_entry(iter, "c", "");
    leveldb_iter_prev(iter);
    on_entry(iter, "b", "2");
    leveldb_iter_prev(iter);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_prev(iter);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_seek_to_last(iter);
    on_entry(iter, "c", "");
    leveldb_iter_next(iter);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_seek(iter, "b\0", 2);
    on_entry(iter, "c", "");
    leveldb_iter_get_error(iter, &err);
    FINE(err);
    leveldb_iter_destroy(iter);
}

static void snapshots(leveldb_t* db, leveldb_readoptions_t* r, const leveldb_writeoptions_t* w) {
    char* err = NULL;
    size_t len;
    leveldb_iterator_t* iter;
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    leveldb_delete(db, w, "b", 1, &err);
    FINE(err);
    leveldb_readoptions_set_snapshot(r, snapshot);
    check_get(db, r, "b", "2");
    iter = leveldb_create_iterator(db, r);
    leveldb_iter_seek(iter, "b", 1);
    on_entry(iter, "b", "2");
    leveldb_release_snapshot(db, snapshot);
    leveldb_iter_prev(iter);
    leveldb_iter_destroy(iter);
    CHECK(leveldb_get(db, r, "b", 1, &len, &err) == NULL && len == 0);
    FAILED(err, "released");
    leveldb_readoptions_set_snapshot(r, NULL);
    check_get(db, r, "b", NULL);
}

static void sizes(leveldb_t* db, const leveldb_writeoptions_t* w) {
    const char* starts[2] = {"k", "k5000"};
    const char* limits[2] = {"k5000", "l"};
    size_t start_lens[2] = {1, 5}, limit_lens[2] = {5, 1};
    uint64_t of[2] = {7, 7};
    char key[16];
    char value[100];
    char* err = NULL;
    int i;
    memset(value, 'v', sizeof value);
    for (i = 0; i < 10000; i++) {
        snprintf(key, sizeof key, "k%04d", i);
        leveldb_put(db, w, key, strlen(key), value, sizeof value, &err);
        FINE(err);
    }
    leveldb_compact_range(db, "k", 1, "l", 1);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_approximate_sizes(db, 2, starts, start_lens, limits, limit_lens, of);
    CHECK(of[0] > 50000 && of[0] < 2 * of[1] && of[1] < 2 * of[0] && of[1] < 1000000);
    leveldb_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
}

static void properties(leveldb_t* db) {
    char* value = leveldb_property_value(db, "leveldb.stats");
    CHECK(value != NULL && strstr(value, "partitions") != NULL);
    leveldb_free(value);
    value = leveldb_property_value(db, "leveldb.sstables");
    CHECK(value != NULL && strstr(value, "key tables") != NULL);
    leveldb_free(value);
    value = leveldb_property_value(db, "leveldb.num-files-at-level1");
    CHECK(value != NULL && atoi(value) > 0);
    leveldb_free(value);
    value = leveldb_property_value(db, "leveldb.num-files-at-level6");
    CHECK(value != NULL && strcmp(value, "0") == 0);
    leveldb_free(value);
    value = leveldb_property_value(db, "leveldb.approximate-memory-usage");
    CHECK(value != NULL && atol(value) > 0);
    leveldb_free(value);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level7") == NULL);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level") == NULL);
    CHECK(leveldb_property_value(db, "nosuchprop") == NULL);
}

static void comparators(leveldb_options_t* options, const char* dir) {
    char* err = NULL;
    leveldb_t* db;
    leveldb_comparator_t* fine = leveldb_comparator_create(&destroyed, destroy, compare, name);
    leveldb_comparator_t* other =
        leveldb_comparator_create(&destroyed, destroy, compare, other_name);
    leveldb_comparator_t* backwards =
        leveldb_comparator_create(&destroyed, destroy, reversed, name);
    leveldb_comparator_t* by_sign =
        leveldb_comparator_create(&destroyed, destroy, signed_bytes, name);

    leveldb_options_set_comparator(options, fine);
    db = leveldb_open(options, in(dir, "ordered"), &err);
    FINE(err);
    leveldb_close(db);
    db = leveldb_open(options, in(dir, "ordered"), &err);
    FINE(err);
    leveldb_put(db, NULL, "a", 1, "b", 1, &err);
    FINE(err);
    leveldb_close(db);
    leveldb_options_set_comparator(options, other);
    CHECK(leveldb_open(options, in(dir, "ordered"), &err) == NULL);
    FAILED(err, "`test.order`, not `another.order`");
    leveldb_options_set_comparator(options, NULL);
    CHECK(leveldb_open(options, in(dir, "ordered"), &err) == NULL);
    FAILED(err, "`test.order`, not `leveldb.BytewiseComparator`");
    leveldb_options_set_comparator(options, backwards);
    CHECK(leveldb_open(options, in(dir, "backwards"), &err) == NULL);
    FAILED(err, "does not order keys bytewise");
    leveldb_options_set_comparator(options, by_sign);
    CHECK(leveldb_open(options, in(dir, "signed"), &err) == NULL);
    FAILED(err, "does not order keys bytewise");
    /* What has entries was made with the usual order. */
    leveldb_options_set_comparator(options, fine);
    CHECK(leveldb_open(options, in(dir, "db"), &err) == NULL);
    FAILED(err, "`leveldb.BytewiseComparator`, not `test.order`");

    leveldb_comparator_destroy(fine);
    CHECK(destroyed == 1);
    CHECK(leveldb_open(options, in(dir, "ordered"), &err) == NULL);
    FAILED(err, "destroyed");
    leveldb_comparator_destroy(other);
    leveldb_comparator_destroy(backwards);
    leveldb_comparator_destroy(by_sign);
    CHECK(destroyed == 4);
    leveldb_options_set_comparator(options, NULL);
}

int main(int argc, char** argv) {
    const char* dir = argv[1];
    char* err = NULL;
    char* tests;
    leveldb_t* db;
    leveldb_options_t* options = leveldb_options_create();
    leveldb_readoptions_t* r = leveldb_readoptions_create();
    leveldb_writeoptions_t* w = leveldb_writeoptions_create();
    leveldb_cache_t* cache = leveldb_cache_create_lru(8 << 20);
    leveldb_env_t* env = leveldb_create_default_env();
    leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
    leveldb_filterpolicy_t* policy =
        leveldb_filterpolicy_create(&destroyed, destroy, create_filter, may_match, name);

    CHECK(argc == 2);
    CHECK(leveldb_major_version() == 1 && leveldb_minor_version() >= 20);
    tests = leveldb_env_get_test_directory(env);
    CHECK(tests != NULL);
    leveldb_free(tests);

    CHECK(leveldb_open(options, in(dir, "db"), &err) == NULL);
    FAILED(err, "NotFound: ");
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    leveldb_options_set_paranoid_checks(options, 1);
    leveldb_options_set_env(options, env);
    leveldb_options_set_info_log(options, NULL);
    leveldb_options_set_write_buffer_size(options, 100000);
    leveldb_options_set_max_open_files(options, 10);
    leveldb_options_set_cache(options, cache);
    leveldb_options_set_block_size(options, 1024);
    leveldb_options_set_block_restart_interval(options, 8);
    leveldb_options_set_max_file_size(options, 3 << 20);
    leveldb_options_set_compression(options, leveldb_snappy_compression);
    leveldb_options_set_filter_policy(options, policy);
    leveldb_readoptions_set_verify_checksums(r, 1);
    leveldb_readoptions_set_fill_cache(r, 0);
    leveldb_writeoptions_set_sync(w, 1);

    db = leveldb_open(options, in(dir, "db"), &err);
    FINE(err);
    leveldb_cache_destroy(cache);
    leveldb_env_destroy(env);
    /* A database that is open cannot be opened, repaired or destroyed. */
    leveldb_options_set_error_if_exists(options, 0);
    CHECK(leveldb_open(options, in(dir, "db"), &err) == NULL);
    FAILED(err, "IO error: ");
    leveldb_repair_db(options, in(dir, "db"), &err);
    FAILED(err, "open in this process");
    leveldb_destroy_db(options, in(dir, "db"), &err);
    FAILED(err, "open in this process");

    leveldb_options_set_env(options, NULL);
    leveldb_options_set_cache(options, NULL);
    batches(db, r, w);
    iterators(db, r, w);
    leveldb_writeoptions_set_sync(w, 0);
    snapshots(db, r, w);
    sizes(db, w);
    properties(db);
    leveldb_close(db);

    leveldb_options_set_error_if_exists(options, 1);
    CHECK(leveldb_open(options, in(dir, "db"), &err) == NULL);
    FAILED(err, "already");
    leveldb_options_set_error_if_exists(options, 0);
    leveldb_options_set_filter_policy(options, bloom);
    leveldb_filterpolicy_destroy(policy);
    CHECK(destroyed == 1);
    destroyed = 0;
    leveldb_repair_db(options, in(dir, "db"), &err);
    FINE(err);
    db = leveldb_open(options, in(dir, "db"), &err);
    FINE(err);
    check_get(db, r, "c", "");
    check_get(db, NULL, "b", NULL);
    leveldb_close(db);
    comparators(options, dir);
    leveldb_destroy_db(options, in(dir, "db"), &err);
    FINE(err);
    leveldb_destroy_db(options, in(dir, "db"), &err);
    FINE(err);
    leveldb_options_set_create_if_missing(options, 0);
    CHECK(leveldb_open(options, in(dir, "db"), &err) == NULL);
    FAILED(err, "NotFound: ");

    leveldb_filterpolicy_destroy(bloom);
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(r);
    leveldb_writeoptions_destroy(w);
    puts("passed");
    return 0;
}
