#ifndef UNIKV_LEVELDB_C_H
#define UNIKV_LEVELDB_C_H

/* LevelDB's C interface, as UniKV provides it in its `libleveldb`. Each function is described in
   unikv.h, under the prefix `unikv_`. A handle of one prefix is one of the other. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

