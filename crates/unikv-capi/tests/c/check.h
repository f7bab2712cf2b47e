/* What the tests in C have in common. Each program is called with an empty directory. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* No error; else its message is printed. */
#define FINE(err)                                                                       \
    do {                                                                                \
        if ((err) != NULL) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (err));                  \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* An error whose message has these words; it is freed. */
#define FAILED(err, words)                                                              \
    do {                                                                                \
        if ((err) == NULL || strstr((err), (words)) == NULL) {                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (err) ? (err) : "no error"); \
            exit(1);                                                                    \
        }                                                                               \
        free(err);                                                                      \
        (err) = NULL;                                                                   \
    } while (0)

/* Whether bytes are this string. */
static int is(const char* bytes, size_t len, const char* string) {
    return bytes != NULL && len == strlen(string) && memcmp(bytes, string, len) == 0;
}

#endif
