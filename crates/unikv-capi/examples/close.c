/* Closes a database, and hears of what was still open. */

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
    unikv_options_t* options = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_t* db = unikv_open(options, "close.db", &err);
    check(err);
    unikv_put(db, NULL, "apple", 5, "red", 3, &err);
    unikv_iterator_t* forgotten = unikv_create_iterator(db, NULL);

    /* Syncs the log and stops the background, whatever is still open. */
    char* report = unikv_close_report_json(db, &err);
    check(err);
    puts(report);
    assert(strstr(report, "\"Iterator\"") != NULL);
    unikv_free(report);
    unikv_iter_seek_to_first(forgotten);
    assert(!unikv_iter_valid(forgotten) && unikv_last_error_kind() == unikv_closed);
    unikv_iter_destroy(forgotten);
    unikv_options_destroy(options);
    return 0;
}
