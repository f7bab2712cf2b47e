/* Mistakes of a program: each is an error, or nothing happens, and the database goes on. */

#include "check.h"
#include "unikv.h"

/* The last call was refused with these words. */
static void refused(const char* words) {
    CHECK(unikv_last_error_kind() == unikv_invalid_argument);
    CHECK(strstr(unikv_last_error_message(), words) != NULL);
    CHECK(unikv_last_error_remedy() != NULL);
    unikv_clear_last_error();
    CHECK(unikv_last_error_kind() == unikv_ok && unikv_last_error_message() == NULL);
}

static unikv_writebatch_t* iterated;
static int calls = 0;
static void put_again(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    (void)state;
    calls++;
    unikv_writebatch_put(iterated, k, klen, v, vlen);
    refused("used by another call");
}
static void ignore(void* state, const char* k, size_t klen) {
    (void)state, (void)k, (void)klen;
}

int main(int argc, char** argv) {
    char* err = NULL;
    size_t len = 77;
    uint64_t offset;
    int i;
    char other[4096];
    unikv_t *db, *second;
    unikv_iterator_t* iter;
    const unikv_snapshot_t* snapshot;
    unikv_options_t* options = unikv_options_create();
    unikv_readoptions_t* r = unikv_readoptions_create();

    CHECK(argc == 2);
    snprintf(other, sizeof other, "%s.other", argv[1]);
    unikv_options_set_create_if_missing(options, 1);

    /* Null. */
    CHECK(unikv_open(options, NULL, &err) == NULL);
    FAILED(err, "null was passed for a string");
    CHECK(unikv_open(NULL, argv[1], NULL) == NULL);
    CHECK(unikv_last_error_kind() == unikv_not_found);
    CHECK(is(unikv_last_error_file(), strlen(argv[1]), argv[1]));
    CHECK(unikv_last_error_offset(&offset) == 0);
    unikv_put(NULL, NULL, "k", 1, "v", 1, &err);
    FAILED(err, "no unikv_t");
    CHECK(unikv_get(NULL, NULL, "k", 1, &len, &err) == NULL);
    FAILED(err, "no unikv_t");
    unikv_close(NULL);
    unikv_iter_destroy(NULL);
    unikv_free(NULL);
    CHECK(unikv_create_iterator(NULL, NULL) == NULL);
    refused("no unikv_t");
    unikv_iter_next(NULL);
    refused("no unikv_iterator_t");

    db = unikv_open(options, argv[1], &err);
    FINE(err);
    unikv_put(db, NULL, NULL, 0, NULL, 0, &err);
    FINE(err);
    unikv_put(db, NULL, NULL, 3, "v", 1, &err);
    FAILED(err, "null was passed with a length");
    unikv_put(db, NULL, "k", (size_t)-1, "v", 1, &err);
    FAILED(err, "a length is more than memory has");
    CHECK(unikv_get(db, NULL, "", 0, NULL, &err) == NULL);
    FAILED(err, "null was passed");
    CHECK(unikv_iter_key(NULL, NULL) == NULL);
    refused("null");

    /* Another type's handle, and what is no handle. */
    unikv_put((unikv_t*)options, NULL, "k", 1, "v", 1, &err);
    FAILED(err, "no unikv_t");
    CHECK(unikv_get(db, (unikv_readoptions_t*)options, "k", 1, &len, &err) == NULL);
    FAILED(err, "no unikv_readoptions_t");
    unikv_close((unikv_t*)((char*)db + 1));
    refused("no unikv_t");

    /* A second end, and use after the end. */
    iter = unikv_create_iterator(db, NULL);
    unikv_iter_seek_to_first(iter);
    CHECK(unikv_iter_valid(iter));
    unikv_iter_destroy(iter);
    unikv_iter_destroy(iter);
    refused("has been closed");
    unikv_iter_next(iter);
    refused("has been closed");
    CHECK(!unikv_iter_valid(iter) && unikv_iter_key(iter, &len) == NULL);
    refused("has been closed");
    unikv_writebatch_put((unikv_writebatch_t*)iter, "k", 1, "v", 1);
    refused("no unikv_writebatch_t");

    /* A callback that changes what calls it. */
    iterated = unikv_writebatch_create();
    unikv_writebatch_put(iterated, "k", 1, "v", 1);
    unikv_writebatch_iterate(iterated, NULL, put_again, ignore);
    CHECK(calls == 1);
    unikv_writebatch_append(iterated, iterated);
    refused("used by another call");
    unikv_writebatch_iterate(iterated, NULL, NULL, ignore);
    refused("null was passed for the function");
    unikv_writebatch_destroy(iterated);

    /* Another database's snapshot. */
    second = unikv_open(options, other, &err);
    FINE(err);
    snapshot = unikv_create_snapshot(second);
    unikv_readoptions_set_snapshot(r, snapshot);
    CHECK(unikv_get(db, r, "", 0, &len, &err) == NULL);
    FAILED(err, "the snapshot is of another database");
    iter = unikv_create_iterator(db, r);
    CHECK(iter != NULL);
    unikv_iter_seek_to_first(iter);
    CHECK(!unikv_iter_valid(iter));
    unikv_iter_get_error(iter, &err);
    FAILED(err, "another database");
    unikv_iter_destroy(iter);

    /* What is of a database that has been closed. */
    iter = unikv_create_iterator(second, NULL);
    unikv_close(second);
    unikv_put(second, NULL, "k", 1, "v", 1, &err);
    FAILED(err, "has been closed");
    unikv_close(second);
    refused("has been closed");
    unikv_iter_seek_to_first(iter);
    CHECK(!unikv_iter_valid(iter));
    unikv_iter_get_error(iter, &err);
    FAILED(err, "closed");
    CHECK(unikv_last_error_kind() == unikv_closed);
    unikv_iter_destroy(iter);
    unikv_release_snapshot(second, snapshot);
    unikv_release_snapshot(second, snapshot);
    refused("has been closed");

    /* A message takes the place of the one before. */
    unikv_put(NULL, NULL, "k", 1, "v", 1, &err);
    unikv_put(db, NULL, NULL, 1, "v", 1, &err);
    FAILED(err, "with a length");

    /* Handles that come and go do not add up. */
    for (i = 0; i < 5000; i++) {
        unikv_iterator_t* one = unikv_create_iterator(db, NULL);
        unikv_iter_seek_to_last(one);
        CHECK(unikv_iter_valid(one));
        unikv_iter_destroy(one);
    }
    unikv_close(db);
    unikv_options_destroy(options);
    unikv_readoptions_destroy(r);
    puts("passed");
    return 0;
}
