/* Threads that are ended inside functions of theirs that we have called, as an interpreter does while the
   process exits. They stay there until it is gone, and nobody waits for them. */

#include "operations.h"

#include <pthread.h>

enum { KINDS = 4, OF_EACH = 3, THREADS = KINDS * OF_EACH, WRITES = 20 };

static unikv_t* db;
static const char* dir;
static char* token;
static int inside = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void leave(void) {
    pthread_mutex_lock(&lock);
    inside++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_exit(NULL);
}

static void put_of_batch(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    (void)state, (void)k, (void)klen, (void)v, (void)vlen;
    leave();
}
static void delete_of_batch(void* state, const char* k, size_t klen) {
    (void)state, (void)k, (void)klen;
}
static void any_put(void* state, uint32_t keyspace, const char* k, size_t klen, const char* v, size_t vlen,
    uint64_t time) {
    (void)state, (void)keyspace, (void)k, (void)klen, (void)v, (void)vlen, (void)time;
    leave();
}
static void any_keyspace(void* state, int what, uint32_t number, uint32_t now, const char* name,
    size_t namelen) {
    (void)state, (void)what, (void)number, (void)now, (void)name, (void)namelen;
}
static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    (void)state, (void)a, (void)alen, (void)b, (void)blen;
    leave();
    return 0;
}
static const char* name(void* state) {
    (void)state;
    return "bytewise";
}

static void of_a_batch(void) {
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_writebatch_put(batch, "k", 1, "v", 1);
    unikv_writebatch_iterate(batch, NULL, put_of_batch, delete_of_batch);
}

static void of_any_batch(void) {
    unikv_writebatch_t* batch = unikv_writebatch_create();
    unikv_writebatch_put(batch, "k", 1, "v", 1);
    unikv_writebatch_iterate_all(batch, NULL, any_put, on_delete, on_range);
}

static void of_a_change(void) {
    char* err = NULL;
    unikv_changes_t* changes = unikv_changes_since(db, token, 1, &err);
    FINE(err);
    CHECK(unikv_changes_next(changes, 0, &err) == 1);
    FINE(err);
    unikv_changes_show(changes, NULL, any_put, on_delete, on_range, on_range, any_keyspace, &err);
}

static void of_a_comparator(void) {
    char* err = NULL;
    unikv_options_t* options = unikv_options_create();
    unikv_comparator_t* comparator = unikv_comparator_create(NULL, NULL, compare, name);
    unikv_options_set_create_if_missing(options, 1);
    unikv_options_set_comparator(options, comparator);
    unikv_open(options, in(dir, "other"), &err);
}

static void* run(void* number) {
    static void (*const kinds[KINDS])(void) = {of_a_batch, of_any_batch, of_a_change, of_a_comparator};
    const int thread = (int)(size_t)number;
    int i;
    for (i = 0; i < WRITES; i++) {
        char key[32], value[32];
        snprintf(key, sizeof key, "%d", thread);
        snprintf(value, sizeof value, "%d", i);
        put(db, NULL, key, value);
    }
    kinds[thread / OF_EACH]();
    CHECK(!"returns");
    return NULL;
}

int main(int argc, char** argv) {
    char* err = NULL;
    int i;
    unikv_options_t* options = unikv_options_create();
    CHECK(argc == 2);
    dir = argv[1];
    unikv_options_set_create_if_missing(options, 1);
    unikv_options_set(options, "change_window_bytes", "1MiB", &err);
    FINE(err);
    db = unikv_open(options, dir, &err);
    FINE(err);
    token = unikv_token(db, &err);
    FINE(err);
    for (i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run, (void*)(size_t)i) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
    pthread_mutex_lock(&lock);
    while (inside < THREADS) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);

    /* Every acknowledged write is there, and the database goes on. */
    for (i = 0; i < THREADS; i++) {
        char key[32];
        size_t len;
        char* value;
        snprintf(key, sizeof key, "%d", i);
        value = unikv_get(db, NULL, key, strlen(key), &len, &err);
        FINE(err);
        CHECK(is(value, len, "19"));
        unikv_free(value);
    }
    put(db, NULL, "after", "all");
    unikv_close(db);
    unikv_free(token);
    unikv_options_destroy(options);
    puts("passed");
    return 0;
}
