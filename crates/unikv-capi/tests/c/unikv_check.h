/* What the tests of UniKV's own functions have in common, beside check.h. */
#ifndef UNIKV_CHECK_H
#define UNIKV_CHECK_H

#include "check.h"
#include "unikv.h"

static char path[4096];

static const char* in(const char* dir, const char* name) {
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(unikv_t* db, const unikv_writeoptions_t* w, const char* key, const char* value) {
    char* err = NULL;
    unikv_put(db, w, key, strlen(key), value, strlen(value), &err);
    FINE(err);
}

/* An operation of a batch or a change in words, added to the string `state`. */
static void on_delete(void* state, uint32_t keyspace, const char* k, size_t klen) {
    sprintf((char*)state + strlen(state), "delete %u %.*s;", keyspace, (int)klen, k);
}
static void on_range(void* state, uint32_t keyspace, const char* start, size_t startlen,
    const char* limit, size_t limitlen) {
    sprintf((char*)state + strlen(state), "range %u %.*s-%.*s;", keyspace, (int)startlen, start,
        (int)limitlen, limit ? limit : "");
}

#endif
