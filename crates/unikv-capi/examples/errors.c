/* Handles errors: by their kind, which says what the caller can do. */

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
    char *err = NULL, *long_key = calloc(100000, 1);
    unikv_t* db = unikv_open_in_memory(NULL, &err);
    check(err);
    unikv_put(db, NULL, long_key, 100000, "value", 5, &err);
    assert(unikv_last_error_kind() == unikv_invalid_argument);
    printf("what: %s; what to do: %s\n", err, unikv_last_error_remedy());
    free(err);
    free(long_key);
    err = NULL;

    unikv_writeoptions_t* at_once = unikv_writeoptions_create();
    unikv_writeoptions_set_no_wait(at_once, 1);
    unikv_put(db, at_once, "apple", 5, "red", 3, &err);
    if (err != NULL && unikv_last_error_kind() == unikv_would_block) {
        puts("later, then");
        free(err);
        err = NULL;
    }
    check(err);
    unikv_writeoptions_destroy(at_once);
    unikv_close(db);
    return 0;
}
