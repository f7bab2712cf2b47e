/* What others see of a database: figures, secondaries, those who get its changes, and exports; and
   what it has stored of its options. */

#include "operations.h"

static void check_get(unikv_t* db, const unikv_readoptions_t* r, const char* key,
    const char* expected) {
    char* err = NULL;
    size_t len = 77;
    char* value = unikv_get(db, r, key, strlen(key), &len, &err);
    FINE(err);
    CHECK(expected == NULL ? value == NULL && len == 0 : is(value, len, expected));
    unikv_free(value);
}

/* The figure of this name that is a number, or -1. */
static long long figure(const char* json, const char* name) {
    char quoted[64];
    const char* at;
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    at = strstr(json, quoted);
    return at == NULL ? -1 : atoll(at + strlen(quoted));
}

static void stored_options(const char* dir) {
    char* err = NULL;
    int at;
    const char* budgets[3] = {"\"budget\":41943040,", "\"budget\":41943040,",
        "\"budget\":268435456,"};
    unikv_options_t* options = unikv_options_create();
    unikv_options_t* later = unikv_options_create();
    unikv_options_set_create_if_missing(options, 1);
    unikv_options_set(options, "memory_budget", "40MiB", &err);
    FINE(err);
    for (at = 0; at < 3; at++) {
        /* Set; as it is stored; forgotten. */
        unikv_t* db = unikv_open(at == 0 ? options : later, in(dir, "stored"), &err);
        char* json;
        FINE(err);
        json = unikv_stats_json(db, &err);
        FINE(err);
        if (strstr(json, budgets[at]) == NULL) {
            fprintf(stderr, "opening %d: %s\n", at, json);
            exit(1);
        }
        unikv_free(json);
        if (at == 1) {
            unikv_options_unset(later, "memory_budget", &err);
            FINE(err);
            CHECK(unikv_keyspace_open(db, "users", later, &err) == NULL);
            FAILED(err, "`unikv_options_unset` is not for a keyspace");
        }
        unikv_close_checked(db, &err);
        FINE(err);
    }
    unikv_options_unset(later, "durability", &err);
    FAILED(err, "there is no option \"durability\" that a database stores");
    unikv_options_unset(later, NULL, &err);
    FAILED(err, "null");
    unikv_options_unset(NULL, "block_bytes", &err);
    FAILED(err, "null");
    unikv_options_destroy(options);
    unikv_options_destroy(later);
}

static void figures(unikv_t* db) {
    char* err = NULL;
    char* json = unikv_stats_json(db, &err);
    long long puts;
    FINE(err);
    puts = figure(json, "puts");
    CHECK(json[0] == '{' && json[strlen(json) - 1] == '}' && puts >= 0);
    unikv_free(json);
    put(db, NULL, "counted", "1");
    json = unikv_stats_json(db, &err);
    FINE(err);
    CHECK(figure(json, "puts") == puts + 1 && figure(json, "nosuch") == -1);
    unikv_free(json);
    unikv_delete(db, NULL, "counted", 7, &err);
    CHECK(unikv_stats_json(NULL, &err) == NULL);
    FAILED(err, "null");
}

static void secondaries(unikv_t* db, const char* dir) {
    char* err = NULL;
    char* names;
    size_t len;
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_readoptions_t* here = unikv_readoptions_create();
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_options_t* options = unikv_options_create();
    unikv_keyspace_t *users, *shown;
    unikv_t* secondary;
    const unikv_snapshot_t* snapshot;
    unikv_iterator_t* iter;

    CHECK(unikv_open_secondary(NULL, in(dir, "none"), 0, &err) == NULL);
    CHECK(unikv_last_error_kind() == unikv_not_found);
    FAILED(err, "NotFound: ");
    put(db, NULL, "apple", "red");
    users = unikv_keyspace_open(db, "users", NULL, &err);
    FINE(err);
    unikv_writeoptions_set_keyspace(w, users);
    put(db, w, "a", "Ada");

    unikv_options_set(options, "memory_budget", "1MiB", &err);
    FINE(err);
    secondary = unikv_open_secondary(options, in(dir, "db"), 0, &err);
    FINE(err);
    check_get(secondary, NULL, "apple", "red");
    put(db, NULL, "apple", "green");
    put(db, w, "a", "Alan");
    CHECK(unikv_secondary_lag(secondary, &err) == 2);
    snapshot = unikv_create_snapshot(secondary);
    check_get(secondary, NULL, "apple", "red");
    unikv_refresh(secondary, &err);
    FINE(err);
    CHECK(unikv_secondary_lag(secondary, &err) == 0);
    CHECK(unikv_secondary_seq(secondary, &err) > 0);
    FINE(err);
    check_get(secondary, NULL, "apple", "green");
    unikv_readoptions_set_snapshot(r, snapshot);
    check_get(secondary, r, "apple", "red");
    CHECK(unikv_get(db, r, "apple", 5, &len, &err) == NULL);
    FAILED(err, "the snapshot is of another database");

    CHECK(unikv_keyspace_find(secondary, "nobody", &err) == NULL);
    FINE(err);
    shown = unikv_keyspace_find(secondary, "users", &err);
    CHECK(shown != NULL);
    unikv_readoptions_set_keyspace(here, shown);
    check_get(secondary, here, "a", "Alan");
    unikv_readoptions_set_keyspace(r, shown);
    check_get(secondary, r, "a", "Ada");
    CHECK(unikv_get(db, here, "a", 1, &len, &err) == NULL);
    FAILED(err, "the keyspace is of another database");
    names = unikv_keyspaces_json(secondary, &err);
    CHECK(strcmp(names, "[\"default\",\"users\"]") == 0);
    unikv_free(names);
    iter = unikv_create_iterator(secondary, here);
    unikv_iter_seek_to_first(iter);
    CHECK(unikv_iter_valid(iter) && is(unikv_iter_key(iter, &len), 1, "a"));
    unikv_iter_destroy(iter);

    names = unikv_stats_json(secondary, &err);
    FINE(err);
    CHECK(strstr(names, "\"lag\":0") && strstr(names, "\"has_writer\":true"));
    CHECK(strstr(names, "\"error\":null"));
    unikv_free(names);

    unikv_put(secondary, NULL, "apple", 5, "blue", 4, &err);
    FAILED(err, "the database is followed, and only reads work");
    unikv_writeoptions_set_keyspace(w, shown);
    unikv_put(secondary, w, "a", 1, "Alonzo", 6, &err);
    FAILED(err, "only reads work");
    CHECK(unikv_keyspace_open(secondary, "more", NULL, &err) == NULL);
    FAILED(err, "only reads work");
    CHECK(unikv_transaction_begin(secondary, 0, &err) == NULL);
    FAILED(err, "only reads work");
    unikv_refresh(db, &err);
    FAILED(err, "was opened to be written");

    unikv_keyspace_drop(users, &err);
    FINE(err);
    unikv_refresh(secondary, &err);
    FINE(err);
    CHECK(unikv_get(secondary, here, "a", 1, &len, &err) == NULL);
    CHECK(unikv_last_error_kind() == unikv_no_such_keyspace);
    FAILED(err, "no keyspace");
    unikv_release_snapshot(secondary, snapshot);
    unikv_close(secondary);
    CHECK(unikv_get(secondary, NULL, "apple", 5, &len, &err) == NULL);
    FAILED(err, "has been closed");
    /* One with a thread of its own ends with it. */
    secondary = unikv_open_secondary(NULL, in(dir, "db"), 1, &err);
    FINE(err);
    unikv_close_checked(secondary, &err);
    FINE(err);

    unikv_keyspace_close(users);
    unikv_keyspace_close(shown);
    unikv_options_destroy(options);
    unikv_readoptions_destroy(r);
    unikv_readoptions_destroy(here);
    unikv_writeoptions_destroy(w);
}

static void on_put(void* state, uint32_t keyspace, const char* k, size_t klen, const char* v,
    size_t vlen, uint64_t expires_ms) {
    sprintf((char*)state + strlen(state), "put %u %.*s=%.*s %s;", keyspace, (int)klen, k, (int)vlen,
        v, expires_ms ? "expires" : "stays");
}
static void on_ingest(void* state, uint32_t keyspace, const char* first, size_t firstlen,
    const char* last, size_t lastlen) {
    sprintf((char*)state + strlen(state), "ingest %u %.*s-%.*s;", keyspace, (int)firstlen, first,
        (int)lastlen, last);
}
static void on_keyspace(void* state, int what, uint32_t number, uint32_t now, const char* name,
    size_t namelen) {
    sprintf((char*)state + strlen(state), "keyspace %d %s %.*s;", what,
        number == now ? "same" : "other", (int)namelen, name ? name : "");
}

/* Checks what the next change is. */
static void next_is(unikv_changes_t* changes, const char* expected) {
    char* err = NULL;
    char shown[512] = "";
    CHECK(unikv_changes_next(changes, 20000, &err) == 1);
    FINE(err);
    unikv_changes_show(
        changes, shown, on_put, on_delete, on_range, on_ingest, on_keyspace, &err);
    FINE(err);
    if (strcmp(shown, expected) != 0) {
        fprintf(stderr, "%s, not %s\n", shown, expected);
        exit(1);
    }
}

static void changes(unikv_t* db, unikv_t* without, const char* dir) {
    char* err = NULL;
    char* token;
    size_t len = 7;
    char expected[64];
    unikv_changes_t *feed, *later;
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_keyspace_t* mails;

    CHECK(unikv_token(without, &err) == NULL);
    FAILED(err, "keeps no changes");
    CHECK(unikv_changes_since(db, "no token", 0, &err) == NULL);
    FAILED(err, "is no token");
    CHECK(unikv_changes_since(db, NULL, 4, &err) == NULL);
    FAILED(err, "there is no such flag");
    CHECK(unikv_changes_since(db, "0123456789abcdef-1", 0, &err) == NULL);
    CHECK(unikv_last_error_kind() == unikv_history_gone);
    FAILED(err, "another incarnation");
    token = unikv_oldest_token(db, &err);
    FINE(err);
    unikv_free(token);

    feed = unikv_changes_since(db, NULL, 0, &err);
    FINE(err);
    CHECK(unikv_changes_next(feed, 0, &err) == 0);
    CHECK(unikv_changes_commit_tag(feed, &len) == NULL && len == 0);
    unikv_writeoptions_set_ttl_ms(w, 60000);
    unikv_writebatch_put(batch, "k", 1, "v", 1);
    unikv_writebatch_put_with(batch, w, "l", 1, "w", 1);
    unikv_writebatch_delete(batch, "k", 1);
    unikv_writebatch_delete_range(batch, NULL, "o", 1, "p", 1);
    unikv_writebatch_delete_range(batch, NULL, "t", 1, NULL, 0);
    unikv_write(db, NULL, batch, &err);
    FINE(err);
    CHECK(unikv_changes_next(feed, 1, &err) == 0);
    unikv_sync(db, &err);
    FINE(err);
    next_is(feed, "put 0 k=v stays;put 0 l=w expires;delete 0 k;range 0 o-p;range 0 t-;");
    token = malloc(strlen(unikv_changes_token(feed)) + 1);
    CHECK(token != NULL);
    strcpy(token, unikv_changes_token(feed));
    mails = unikv_keyspace_open(db, "mails", NULL, &err);
    FINE(err);
    CHECK(unikv_keyspace_number(mails) > 0);
    next_is(feed, "keyspace 1 same mails;");
    unikv_keyspace_truncate(mails, &err);
    FINE(err);
    next_is(feed, "keyspace 4 other ;");
    put(db, NULL, "apple", "red");
    CHECK(unikv_export(db, NULL, "a", 1, "b", 1, in(dir, "fruit"), &err) == 1);
    FINE(err);
    CHECK(unikv_import(db, NULL, in(dir, "fruit"), &err) == 1);
    FINE(err);
    next_is(feed, "put 0 apple=red stays;");
    next_is(feed, "ingest 0 apple-apple;");
    unikv_changes_destroy(feed);

    later = unikv_changes_since(db, token, 1, &err);
    FINE(err);
    CHECK(strcmp(unikv_changes_token(later), token) == 0);
    next_is(later, "keyspace 1 same mails;");
    free(token);
    unikv_changes_show(later, expected, NULL, on_delete, on_range, on_ingest, on_keyspace, &err);
    FAILED(err, "puts");
    unikv_changes_destroy(later);
    unikv_keyspace_close(mails);
    unikv_writebatch_destroy(batch);
    unikv_writeoptions_destroy(w);
}

static void exports(unikv_t* db, unikv_t* other, const char* dir) {
    char* err = NULL;
    unikv_writeoptions_t* w = unikv_writeoptions_create();
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_keyspace_t* fruit = unikv_keyspace_open(other, "fruit", NULL, &err);
    FINE(err);
    CHECK(unikv_export(db, NULL, NULL, 0, NULL, 0, in(dir, "fruit"), &err) == 0);
    FAILED(err, "fruit");
    CHECK(unikv_import(other, NULL, in(dir, "none"), &err) == 0);
    FAILED(err, "none");
    unikv_writeoptions_set_keyspace(w, fruit);
    CHECK(unikv_import(other, w, in(dir, "fruit"), &err) == 1);
    FINE(err);
    unikv_readoptions_set_keyspace(r, fruit);
    check_get(other, r, "apple", "red");
    check_get(other, NULL, "apple", NULL);
    unikv_keyspace_close(fruit);
    unikv_readoptions_destroy(r);
    unikv_writeoptions_destroy(w);
}

/* Closing while something that was made of the database is open. */
static void closing(const char* dir) {
    char *err = NULL, *report;
    size_t len;
    const unikv_snapshot_t* snapshot;
    unikv_t* again;
    unikv_iterator_t *iter, *unmoved;
    unikv_transaction_t* transaction;
    unikv_options_t* options = unikv_options_create();
    unikv_readoptions_t* r = unikv_readoptions_create();
    unikv_t* db;
    unikv_options_set_create_if_missing(options, 1);
    db = unikv_open(options, in(dir, "closing"), &err);
    FINE(err);
    put(db, NULL, "a", "1");
    put(db, NULL, "b", "2");
    snapshot = unikv_create_snapshot(db);
    unikv_readoptions_set_snapshot(r, snapshot);
    transaction = unikv_transaction_begin(db, 0, &err);
    FINE(err);
    iter = unikv_create_iterator(db, NULL);
    unikv_iter_seek_to_first(iter);
    CHECK(unikv_iter_valid(iter));
    unmoved = unikv_create_iterator(db, NULL);
    report = unikv_close_report_json(db, &err);
    FINE(err);
    CHECK(strstr(report, "{\"still_open\":[{\"kind\":\"Snapshot\",\"age\":{\"secs\":") == report);
    CHECK(strstr(report, "\"Transaction\"") != NULL);
    CHECK(strstr(strstr(report, "\"Iterator\"") + 1, "\"Iterator\"") != NULL);
    unikv_free(report);
    CHECK(unikv_close_report_json(db, &err) == NULL);
    FAILED(err, "has been closed");

    /* What is left does not disturb the next one, and fails. */
    again = unikv_open(options, in(dir, "closing"), &err);
    FINE(err);
    unikv_iter_next(iter);
    CHECK(!unikv_iter_valid(iter));
    unikv_iter_get_error(iter, &err);
    FAILED(err, "has been closed");
    unikv_iter_seek_to_last(unmoved);
    CHECK(!unikv_iter_valid(unmoved));
    CHECK(unikv_last_error_kind() == unikv_closed);
    CHECK(unikv_transaction_get(transaction, NULL, "a", 1, &len, &err) == NULL);
    CHECK(unikv_last_error_kind() == unikv_closed);
    FAILED(err, "has been closed");
    unikv_transaction_put(transaction, NULL, "a", 1, "3", 1, &err);
    FAILED(err, "has been closed");
    unikv_transaction_commit(transaction, NULL, &err);
    FAILED(err, "has been closed");
    unikv_transaction_destroy(transaction);
    unikv_iter_destroy(iter);
    unikv_iter_destroy(unmoved);
    unikv_release_snapshot(db, snapshot);
    report = unikv_close_report_json(again, &err);
    FINE(err);
    CHECK(strcmp(report, "{\"still_open\":[]}") == 0);
    unikv_free(report);
    report = unikv_close_report_json(NULL, &err);
    FINE(err);
    CHECK(strcmp(report, "{\"still_open\":[]}") == 0);
    unikv_free(report);
    unikv_options_destroy(options);
    unikv_readoptions_destroy(r);
}

int main(int argc, char** argv) {
    char* err = NULL;
    unikv_t *db, *other;
    unikv_options_t* options = unikv_options_create();
    CHECK(argc == 2);
    unikv_options_set_create_if_missing(options, 1);
    other = unikv_open(options, in(argv[1], "other"), &err);
    FINE(err);
    unikv_options_set(options, "change_window_bytes", "16MiB", &err);
    db = unikv_open(options, in(argv[1], "db"), &err);
    FINE(err);
    stored_options(argv[1]);
    figures(db);
    secondaries(db, argv[1]);
    changes(db, other, argv[1]);
    exports(db, other, argv[1]);
    closing(argv[1]);
    unikv_close_checked(db, &err);
    FINE(err);
    unikv_close_checked(other, &err);
    FINE(err);
    unikv_options_destroy(options);
    puts("passed");
    return 0;
}
