/* Reads the database as it was at one moment, while it changes. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unikv.h>

static void check(const char* err) {
    if (err != NULL) {
        fprintf(stderr, "%s\n", err);
        exit(1);
    }
}

int main(void) {
    char* err = NULL;
    size_t len;
    unikv_options_t* options = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_t* db = unikv_open(options, "snapshot.db", &err);
    check(err);
    unikv_put(db, NULL, "apple", 5, "red", 3, &err);
    const unikv_snapshot_t* before = unikv_create_snapshot(db);
    unikv_put(db, NULL, "apple", 5, "green", 5, &err);
    check(err);
    unikv_readoptions_t* then = unikv_readoptions_create();
    unikv_readoptions_set_snapshot(then, before);
    char* color = unikv_get(db, then, "apple", 5, &len, &err);
    check(err);
    assert(len == 3 && memcmp(color, "red", 3) == 0);
    free(color);
    unikv_readoptions_destroy(then);
    unikv_release_snapshot(db, before); /* What it shows stays on disk until then. */
    unikv_close(db);
    unikv_options_destroy(options);
    return 0;
}
