/* Takes money out of an account; a transaction that conflicts with another write begins again. */

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
    char *err = NULL, text[16];
    int times = 0, ada;
    unikv_t* db = unikv_open_in_memory(NULL, &err);
    do {
        free(err);
        err = NULL;
        size_t len;
        unikv_transaction_t* txn = unikv_transaction_begin(db, 0, &err);
        char* balance = unikv_transaction_get(txn, NULL, "ada", 3, &len, &err);
        ada = balance == NULL ? 0 : atoi(balance); /* A NUL follows each value. */
        free(balance);
        int text_len = sprintf(text, "%d", ada - 10);
        unikv_transaction_put(txn, NULL, "ada", 3, text, (size_t)text_len, &err);
        if (times++ == 0) unikv_put(db, NULL, "ada", 3, "100", 3, &err); /* Another pays in. */
        check(err);
        unikv_transaction_commit(txn, NULL, &err);
        unikv_transaction_destroy(txn);
    } while (err != NULL && unikv_last_error_kind() == unikv_conflict);
    check(err);
    assert(times == 2 && ada == 100);
    unikv_close(db);
    return 0;
}
