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

#endif
