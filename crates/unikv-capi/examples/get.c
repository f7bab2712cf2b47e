/* Reads values: as memory to be freed, into memory of its own, several at once, or a part of one. */

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
    char *err = NULL, buffer[16];
    size_t len, lens[2], key_lens[2] = {5, 6};
    const char* keys[2] = {"apple", "cherry"};
    unikv_options_t* options = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_t* db = unikv_open(options, "get.db", &err);
    check(err);
    unikv_put(db, NULL, "apple", 5, "red", 3, &err);
    unikv_put(db, NULL, "banana", 6, "yellow", 6, &err);
    char* color = unikv_get(db, NULL, "apple", 5, &len, &err);
    printf("an apple is %.*s\n", (int)len, color);
    free(color);
    unikv_multi_get(db, NULL, 2, keys, key_lens, buffer, sizeof buffer, lens, &err);
    assert(lens[0] == 3 && lens[1] == SIZE_MAX); /* There is no cherry. */
    unikv_get_into(db, NULL, "banana", 6, buffer, sizeof buffer, &len, &err);
    assert(len == 6 && memcmp(buffer, "yellow", 6) == 0);
    unikv_get_range_into(db, NULL, "banana", 6, 3, buffer, 3, &len, &err);
    assert(len == 3 && memcmp(buffer, "low", 3) == 0);
    check(err);
    unikv_close(db);
    unikv_options_destroy(options);
    return 0;
}
