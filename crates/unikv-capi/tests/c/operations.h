/* What the tests of batches and of changes have in common, beside unikv_check.h. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "unikv_check.h"

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
