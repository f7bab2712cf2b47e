#ifndef UNIKV_H
#define UNIKV_H

/* UniKV: an embedded, ordered, persistent key-value store.

   This is LevelDB's C interface under the prefix `unikv_`, and what UniKV has beside it. Programs
   written for LevelDB link `libleveldb` of this package instead, and change nothing.

   Conventions
   - Handles are opaque. Each is ended by its own function, once. Those of options, comparators and
     the like may be ended while the database is open.
   - Keys and values are a pointer and a length. NULL with a length of 0 is the empty string.
   - `errptr` points to a NULL, or to an earlier message from `malloc`, which is freed when another
     takes its place. A call that succeeds leaves it as it is. It may be NULL. The message begins
     with LevelDB's word for the kind of error (`Corruption: `, `IO error: `, ...), and names file,
     offset and remedy where there are any.
   - After a call that has failed, `unikv_last_error_kind` and its sisters return the details of the
     error, by thread like `errno`. Functions without `errptr` report there alone, and then return
     NULL or 0.
   - What is said to be freed comes from `malloc`; `unikv_free` frees it, too.
   - A boolean is an `unsigned char`: 0, or anything else for yes.

   Threads
   - A database, a keyspace and a snapshot may be used by any number of threads, but must not be
     closed while another call uses them. The same holds for options: they must not be changed or
     destroyed meanwhile.
   - Iterators, batches and transactions are used by one thread at a time.
   - A database that was opened before `fork` fails in the child with `unikv_forked`.
   - A function that the library calls returns, and does not throw or jump. If its thread ends inside
     it (`pthread_exit`), as an interpreter ends threads while the process exits, the thread stops
     there until the process is gone. Nobody waits for it.

   Mistakes that are caught, as `unikv_invalid_argument`, and change nothing: NULL for a handle or a
   string; a handle of another type; closing twice, and use after closing (until more than 1,024
   other handles of the type have been closed after it); iterators, batches and transactions used by
   two threads at once, or from a callback that they have called; a snapshot or a keyspace used with
   another database, a released snapshot; NULL with a length. Not caught, as C does not allow it:
   pointers to other memory, wrong lengths, closing what another thread is using.

   No panic of the library leaves it: that would be an error of the kind `unikv_internal_error`. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

