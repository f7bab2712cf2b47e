/* Writes several keys at once: after a crash all of them are there, or none. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unikv.h>

static void check(const char* err) {
    if (err != NULL) {
        fprintf(stderr, "%s\n", err);
        exit(1);
    }
}

int main(void) {
    char* err = NULL;
    unikv_options_t* options = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_t* db = unikv_open(options, "batch.db", &err);
    check(err);
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_writebatch_put(batch, "account/ada", 11, "80", 2);
    unikv_writebatch_put(batch, "account/bob", 11, "20", 2);
    unikv_writebatch_delete(batch, "pending/transfer", 16);
    unikv_writeoptions_t* durable = unikv_writeoptions_create();
    unikv_writeoptions_set_sync(durable, 1);
    unikv_write(db, durable, batch, &err);
    check(err);
    unsigned char is_there = unikv_contains(db, NULL, "account/bob", 11, &err);
    assert(is_there);
    unikv_writeoptions_destroy(durable);
    unikv_writebatch_destroy(batch);
    unikv_close_checked(db, &err);
    check(err);
    unikv_options_destroy(options);
    return 0;
}
