/* Written by a test of crates/unikv-capi (UNIKV_REWRITE_HEADER=1). */
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

typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_t leveldb_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_cache_t leveldb_cache_t;

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };

/* ==== The database ==== */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);
void leveldb_close(leveldb_t* db);
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
    const char* val, size_t vallen, char** errptr);
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
    size_t keylen, char** errptr);
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
    char** errptr);
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
    size_t* vallen, char** errptr);
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);
void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes);
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
    const char* limit_key, size_t limit_key_len);

/* ==== Properties ==== */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* ==== Databases that nobody has open ==== */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ==== Iterators ==== */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);
void leveldb_iter_destroy(leveldb_iterator_t* iter);
unsigned char leveldb_iter_valid(const leveldb_iterator_t* iter);
void leveldb_iter_seek_to_first(leveldb_iterator_t* iter);
void leveldb_iter_seek_to_last(leveldb_iterator_t* iter);
void leveldb_iter_seek(leveldb_iterator_t* iter, const char* k, size_t klen);
void leveldb_iter_next(leveldb_iterator_t* iter);
void leveldb_iter_prev(leveldb_iterator_t* iter);
const char* leveldb_iter_key(const leveldb_iterator_t* iter, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t* iter, size_t* vlen);
void leveldb_iter_get_error(const leveldb_iterator_t* iter, char** errptr);

/* ==== Batches ==== */
leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
void leveldb_writebatch_clear(leveldb_writebatch_t* batch);
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen,
    const char* val, size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen));
void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ==== Options of a database ==== */
leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t* options);
void leveldb_options_set_comparator(leveldb_options_t* options, const leveldb_comparator_t* comparator);
void leveldb_options_set_filter_policy(leveldb_options_t* options,
    const leveldb_filterpolicy_t* policy);
void leveldb_options_set_create_if_missing(leveldb_options_t* options, unsigned char yes);
void leveldb_options_set_error_if_exists(leveldb_options_t* options, unsigned char yes);
void leveldb_options_set_paranoid_checks(leveldb_options_t* options, unsigned char yes);
void leveldb_options_set_env(leveldb_options_t* options, const leveldb_env_t* env);
void leveldb_options_set_info_log(leveldb_options_t* options, const leveldb_logger_t* logger);
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);
void leveldb_options_set_max_open_files(leveldb_options_t* options, int files);
void leveldb_options_set_cache(leveldb_options_t* options, const leveldb_cache_t* cache);
void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);
void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int keys);
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);
void leveldb_options_set_compression(leveldb_options_t* options, int kind);

/* ==== Options of reads and writes ==== */
leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t* options);
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, unsigned char yes);
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, unsigned char yes);
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
    const leveldb_snapshot_t* snapshot);
leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, unsigned char yes);

/* ==== Comparators ==== */
leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));
void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* ==== Filter policies, caches, the environment, versions ==== */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys, size_t* filter_length),
    unsigned char (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);
leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);
leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t* env);
char* leveldb_env_get_test_directory(leveldb_env_t* env);
void leveldb_free(void* ptr);
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif
#endif
