/* Stores, overwrites and removes a value, and stores one that survives a power cut when the call
   returns. */

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
    unikv_t* db = unikv_open(options, "put.db", &err);
    check(err);
    unikv_put(db, NULL, "apple", 5, "green", 5, &err);
    unikv_put(db, NULL, "apple", 5, "red", 3, &err);
    unikv_delete(db, NULL, "banana", 6, &err); /* Removing what is not there is no error. */
    check(err);
    unikv_writeoptions_t* durable = unikv_writeoptions_create();
    unikv_writeoptions_set_sync(durable, 1);
    unikv_put(db, durable, "balance", 7, "90", 2, &err);
    check(err);
    unsigned char is_there = unikv_contains(db, NULL, "apple", 5, &err);
    assert(is_there);
    unikv_close_checked(db, &err);
    check(err);
    unikv_writeoptions_destroy(durable);
    unikv_options_destroy(options);
    return 0;
}
