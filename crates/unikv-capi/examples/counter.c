/* Changes a value by what it is: counts, and takes a lock that is free. */

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
    int64_t visits = 0;
    unikv_options_t* options = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_t* db = unikv_open(options, "counter.db", &err);
    check(err);
    unikv_delete(db, NULL, "visits", 6, &err);
    for (int i = 0; i < 400; i++) {
        unikv_increment(db, NULL, "visits", 6, 1, &visits, &err);
        check(err);
    }
    printf("%lld visits\n", (long long)visits);
    assert(visits == 400);

    /* NULL stands for no value: the lock is free. */
    int mine = unikv_compare_and_swap(db, NULL, "lock", 4, NULL, 0, "me", 2, &err);
    int yours = unikv_compare_and_swap(db, NULL, "lock", 4, NULL, 0, "you", 3, &err);
    int free_again = unikv_compare_and_swap(db, NULL, "lock", 4, "me", 2, NULL, 0, &err);
    check(err);
    assert(mine && !yours && free_again);
    unikv_close(db);
    unikv_options_destroy(options);
    return 0;
}
