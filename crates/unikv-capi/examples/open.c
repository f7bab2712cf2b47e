/* Opens a database: whatever is there, only one that exists, or only a new one. */

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
    unikv_t* db = unikv_open(options, "open.db", &err);
    unikv_options_destroy(options);
    check(err);
    unikv_close_checked(db, &err);
    check(err);

    db = unikv_create_new(NULL, "open.db", &err);
    assert(db == NULL && unikv_last_error_kind() == unikv_invalid_argument);
    printf("not made again: %s\n", err);
    db = unikv_open_existing(NULL, "nowhere.db", &err); /* The message before it is freed. */
    assert(db == NULL && unikv_last_error_kind() == unikv_not_found);
    free(err);
    err = NULL;

    db = unikv_open_existing(NULL, "open.db", &err);
    check(err);
    unikv_close(db);
    return 0;
}
