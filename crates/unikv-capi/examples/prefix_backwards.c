/* Iterates over the keys with a prefix, the last one first. */

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
    char *err = NULL, key[] = "visit/1";
    size_t len, seen = 0;
    unikv_t* db = unikv_open_in_memory(NULL, &err);
    check(err);
    for (; key[6] <= '9'; key[6]++) unikv_put(db, NULL, key, 7, "", 0, &err);
    unikv_put(db, NULL, "user/ada", 8, "", 0, &err);
    check(err);
    unikv_readoptions_t* visits = unikv_readoptions_create();
    unikv_readoptions_set_lower_bound(visits, "visit/", 6);
    unikv_readoptions_set_upper_bound(visits, "visit0", 6); /* What follows '/'. */
    unikv_iterator_t* iter = unikv_create_iterator(db, visits);
    for (unikv_iter_seek_to_last(iter); unikv_iter_valid(iter); unikv_iter_prev(iter)) {
        const char* visit = unikv_iter_key(iter, &len);
        printf("%.*s\n", (int)len, visit);
        seen++;
    }
    unikv_iter_get_error(iter, &err); /* At the end, or after damage? */
    check(err);
    assert(seen == 9);
    unikv_iter_destroy(iter);
    unikv_readoptions_destroy(visits);
    unikv_close(db);
    return 0;
}
