/* Written by a test of crates/unikv-capi (UNIKV_REWRITE_HEADER=1). */
/* The library of LevelDB's names: each function calls the one of libunikv. */

#include "unikv.h"

unikv_t* leveldb_open(const unikv_options_t* options, const char* name, char** errptr);
unikv_t* leveldb_open(const unikv_options_t* options, const char* name, char** errptr) {
    return unikv_open(options, name, errptr);
}

void leveldb_close(unikv_t* db);
void leveldb_close(unikv_t* db) {
    unikv_close(db);
}

void leveldb_put(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, const char* val, size_t vallen, char** errptr);
void leveldb_put(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, const char* val, size_t vallen, char** errptr) {
    unikv_put(db, options, key, keylen, val, vallen, errptr);
}

void leveldb_delete(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, char** errptr);
void leveldb_delete(unikv_t* db, const unikv_writeoptions_t* options, const char* key,
    size_t keylen, char** errptr) {
    unikv_delete(db, options, key, keylen, errptr);
}

void leveldb_write(unikv_t* db, const unikv_writeoptions_t* options, unikv_writebatch_t* batch,
    char** errptr);
void leveldb_write(unikv_t* db, const unikv_writeoptions_t* options, unikv_writebatch_t* batch,
    char** errptr) {
    unikv_write(db, options, batch, errptr);
}

char* leveldb_get(unikv_t* db, const unikv_readoptions_t* options, const char* key,
    size_t keylen, size_t* vallen, char** errptr);
char* leveldb_get(unikv_t* db, const unikv_readoptions_t* options, const char* key,
    size_t keylen, size_t* vallen, char** errptr) {
    return unikv_get(db, options, key, keylen, vallen, errptr);
}

const unikv_snapshot_t* leveldb_create_snapshot(unikv_t* db);
const unikv_snapshot_t* leveldb_create_snapshot(unikv_t* db) {
    return unikv_create_snapshot(db);
}

void leveldb_release_snapshot(unikv_t* db, const unikv_snapshot_t* snapshot);
void leveldb_release_snapshot(unikv_t* db, const unikv_snapshot_t* snapshot) {
    unikv_release_snapshot(db, snapshot);
}

void leveldb_approximate_sizes(unikv_t* db, int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes);
void leveldb_approximate_sizes(unikv_t* db, int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes) {
    unikv_approximate_sizes(db, num_ranges, range_start_key, range_start_key_len, range_limit_key, range_limit_key_len, sizes);
}

void leveldb_compact_range(unikv_t* db, const char* start_key, size_t start_key_len,
    const char* limit_key, size_t limit_key_len);
void leveldb_compact_range(unikv_t* db, const char* start_key, size_t start_key_len,
    const char* limit_key, size_t limit_key_len) {
    unikv_compact_range(db, start_key, start_key_len, limit_key, limit_key_len);
}

char* leveldb_property_value(unikv_t* db, const char* propname);
char* leveldb_property_value(unikv_t* db, const char* propname) {
    return unikv_property_value(db, propname);
}

void leveldb_destroy_db(const unikv_options_t* options, const char* name, char** errptr);
void leveldb_destroy_db(const unikv_options_t* options, const char* name, char** errptr) {
    unikv_destroy_db(options, name, errptr);
}

void leveldb_repair_db(const unikv_options_t* options, const char* name, char** errptr);
void leveldb_repair_db(const unikv_options_t* options, const char* name, char** errptr) {
    unikv_repair_db(options, name, errptr);
}

unikv_iterator_t* leveldb_create_iterator(unikv_t* db, const unikv_readoptions_t* options);
unikv_iterator_t* leveldb_create_iterator(unikv_t* db, const unikv_readoptions_t* options) {
    return unikv_create_iterator(db, options);
}

void leveldb_iter_destroy(unikv_iterator_t* iter);
void leveldb_iter_destroy(unikv_iterator_t* iter) {
    unikv_iter_destroy(iter);
}

unsigned char leveldb_iter_valid(const unikv_iterator_t* iter);
unsigned char leveldb_iter_valid(const unikv_iterator_t* iter) {
    return unikv_iter_valid(iter);
}

void leveldb_iter_seek_to_first(unikv_iterator_t* iter);
void leveldb_iter_seek_to_first(unikv_iterator_t* iter) {
    unikv_iter_seek_to_first(iter);
}

void leveldb_iter_seek_to_last(unikv_iterator_t* iter);
void leveldb_iter_seek_to_last(unikv_iterator_t* iter) {
    unikv_iter_seek_to_last(iter);
}

void leveldb_iter_seek(unikv_iterator_t* iter, const char* k, size_t klen);
void leveldb_iter_seek(unikv_iterator_t* iter, const char* k, size_t klen) {
    unikv_iter_seek(iter, k, klen);
}

void leveldb_iter_next(unikv_iterator_t* iter);
void leveldb_iter_next(unikv_iterator_t* iter) {
    unikv_iter_next(iter);
}

void leveldb_iter_prev(unikv_iterator_t* iter);
void leveldb_iter_prev(unikv_iterator_t* iter) {
    unikv_iter_prev(iter);
}

const char* leveldb_iter_key(const unikv_iterator_t* iter, size_t* klen);
const char* leveldb_iter_key(const unikv_iterator_t* iter, size_t* klen) {
    return unikv_iter_key(iter, klen);
}

const char* leveldb_iter_value(const unikv_iterator_t* iter, size_t* vlen);
const char* leveldb_iter_value(const unikv_iterator_t* iter, size_t* vlen) {
    return unikv_iter_value(iter, vlen);
}

void leveldb_iter_get_error(const unikv_iterator_t* iter, char** errptr);
void leveldb_iter_get_error(const unikv_iterator_t* iter, char** errptr) {
    unikv_iter_get_error(iter, errptr);
}

unikv_writebatch_t* leveldb_writebatch_create(void);
unikv_writebatch_t* leveldb_writebatch_create(void) {
    return unikv_writebatch_create();
}

void leveldb_writebatch_destroy(unikv_writebatch_t* batch);
void leveldb_writebatch_destroy(unikv_writebatch_t* batch) {
    unikv_writebatch_destroy(batch);
}

void leveldb_writebatch_clear(unikv_writebatch_t* batch);
void leveldb_writebatch_clear(unikv_writebatch_t* batch) {
    unikv_writebatch_clear(batch);
}

void leveldb_writebatch_put(unikv_writebatch_t* batch, const char* key, size_t klen,
    const char* val, size_t vlen);
void leveldb_writebatch_put(unikv_writebatch_t* batch, const char* key, size_t klen,
    const char* val, size_t vlen) {
    unikv_writebatch_put(batch, key, klen, val, vlen);
}

void leveldb_writebatch_delete(unikv_writebatch_t* batch, const char* key, size_t klen);
void leveldb_writebatch_delete(unikv_writebatch_t* batch, const char* key, size_t klen) {
    unikv_writebatch_delete(batch, key, klen);
}

void leveldb_writebatch_iterate(const unikv_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen));
void leveldb_writebatch_iterate(const unikv_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen)) {
    unikv_writebatch_iterate(batch, state, put, deleted);
}

void leveldb_writebatch_append(unikv_writebatch_t* destination, const unikv_writebatch_t* source);
void leveldb_writebatch_append(unikv_writebatch_t* destination, const unikv_writebatch_t* source) {
    unikv_writebatch_append(destination, source);
}

unikv_options_t* leveldb_options_create(void);
unikv_options_t* leveldb_options_create(void) {
    return unikv_options_create();
}

void leveldb_options_destroy(unikv_options_t* options);
void leveldb_options_destroy(unikv_options_t* options) {
    unikv_options_destroy(options);
}

void leveldb_options_set_comparator(unikv_options_t* options,
    const unikv_comparator_t* comparator);
void leveldb_options_set_comparator(unikv_options_t* options,
    const unikv_comparator_t* comparator) {
    unikv_options_set_comparator(options, comparator);
}

void leveldb_options_set_filter_policy(unikv_options_t* options,
    const unikv_filterpolicy_t* policy);
void leveldb_options_set_filter_policy(unikv_options_t* options,
    const unikv_filterpolicy_t* policy) {
    unikv_options_set_filter_policy(options, policy);
}

void leveldb_options_set_create_if_missing(unikv_options_t* options, unsigned char yes);
void leveldb_options_set_create_if_missing(unikv_options_t* options, unsigned char yes) {
    unikv_options_set_create_if_missing(options, yes);
}

void leveldb_options_set_error_if_exists(unikv_options_t* options, unsigned char yes);
void leveldb_options_set_error_if_exists(unikv_options_t* options, unsigned char yes) {
    unikv_options_set_error_if_exists(options, yes);
}

void leveldb_options_set_paranoid_checks(unikv_options_t* options, unsigned char yes);
void leveldb_options_set_paranoid_checks(unikv_options_t* options, unsigned char yes) {
    unikv_options_set_paranoid_checks(options, yes);
}

void leveldb_options_set_env(unikv_options_t* options, const unikv_env_t* env);
void leveldb_options_set_env(unikv_options_t* options, const unikv_env_t* env) {
    unikv_options_set_env(options, env);
}

void leveldb_options_set_info_log(unikv_options_t* options, const unikv_logger_t* logger);
void leveldb_options_set_info_log(unikv_options_t* options, const unikv_logger_t* logger) {
    unikv_options_set_info_log(options, logger);
}

void leveldb_options_set_write_buffer_size(unikv_options_t* options, size_t bytes);
void leveldb_options_set_write_buffer_size(unikv_options_t* options, size_t bytes) {
    unikv_options_set_write_buffer_size(options, bytes);
}

void leveldb_options_set_max_open_files(unikv_options_t* options, int files);
void leveldb_options_set_max_open_files(unikv_options_t* options, int files) {
    unikv_options_set_max_open_files(options, files);
}

void leveldb_options_set_cache(unikv_options_t* options, const unikv_cache_t* cache);
void leveldb_options_set_cache(unikv_options_t* options, const unikv_cache_t* cache) {
    unikv_options_set_cache(options, cache);
}

void leveldb_options_set_block_size(unikv_options_t* options, size_t bytes);
void leveldb_options_set_block_size(unikv_options_t* options, size_t bytes) {
    unikv_options_set_block_size(options, bytes);
}

void leveldb_options_set_block_restart_interval(unikv_options_t* options, int keys);
void leveldb_options_set_block_restart_interval(unikv_options_t* options, int keys) {
    unikv_options_set_block_restart_interval(options, keys);
}

void leveldb_options_set_max_file_size(unikv_options_t* options, size_t bytes);
void leveldb_options_set_max_file_size(unikv_options_t* options, size_t bytes) {
    unikv_options_set_max_file_size(options, bytes);
}

void leveldb_options_set_compression(unikv_options_t* options, int kind);
void leveldb_options_set_compression(unikv_options_t* options, int kind) {
    unikv_options_set_compression(options, kind);
}

unikv_readoptions_t* leveldb_readoptions_create(void);
unikv_readoptions_t* leveldb_readoptions_create(void) {
    return unikv_readoptions_create();
}

void leveldb_readoptions_destroy(unikv_readoptions_t* options);
void leveldb_readoptions_destroy(unikv_readoptions_t* options) {
    unikv_readoptions_destroy(options);
}

void leveldb_readoptions_set_verify_checksums(unikv_readoptions_t* options, unsigned char yes);
void leveldb_readoptions_set_verify_checksums(unikv_readoptions_t* options, unsigned char yes) {
    unikv_readoptions_set_verify_checksums(options, yes);
}

void leveldb_readoptions_set_fill_cache(unikv_readoptions_t* options, unsigned char yes);
void leveldb_readoptions_set_fill_cache(unikv_readoptions_t* options, unsigned char yes) {
    unikv_readoptions_set_fill_cache(options, yes);
}

void leveldb_readoptions_set_snapshot(unikv_readoptions_t* options,
    const unikv_snapshot_t* snapshot);
void leveldb_readoptions_set_snapshot(unikv_readoptions_t* options,
    const unikv_snapshot_t* snapshot) {
    unikv_readoptions_set_snapshot(options, snapshot);
}

unikv_writeoptions_t* leveldb_writeoptions_create(void);
unikv_writeoptions_t* leveldb_writeoptions_create(void) {
    return unikv_writeoptions_create();
}

void leveldb_writeoptions_destroy(unikv_writeoptions_t* options);
void leveldb_writeoptions_destroy(unikv_writeoptions_t* options) {
    unikv_writeoptions_destroy(options);
}

void leveldb_writeoptions_set_sync(unikv_writeoptions_t* options, unsigned char yes);
void leveldb_writeoptions_set_sync(unikv_writeoptions_t* options, unsigned char yes) {
    unikv_writeoptions_set_sync(options, yes);
}

unikv_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*));
unikv_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b, size_t blen),
    const char* (*name)(void*)) {
    return unikv_comparator_create(state, destructor, compare, name);
}

void leveldb_comparator_destroy(unikv_comparator_t* comparator);
void leveldb_comparator_destroy(unikv_comparator_t* comparator) {
    unikv_comparator_destroy(comparator);
}

unikv_filterpolicy_t* leveldb_filterpolicy_create(void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys, size_t* filter_length),
    unsigned char (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
unikv_filterpolicy_t* leveldb_filterpolicy_create(void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys, size_t* filter_length),
    unsigned char (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*)) {
    return unikv_filterpolicy_create(state, destructor, create_filter, key_may_match, name);
}

void leveldb_filterpolicy_destroy(unikv_filterpolicy_t* policy);
void leveldb_filterpolicy_destroy(unikv_filterpolicy_t* policy) {
    unikv_filterpolicy_destroy(policy);
}

unikv_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);
unikv_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key) {
    return unikv_filterpolicy_create_bloom(bits_per_key);
}

unikv_cache_t* leveldb_cache_create_lru(size_t capacity);
unikv_cache_t* leveldb_cache_create_lru(size_t capacity) {
    return unikv_cache_create_lru(capacity);
}

void leveldb_cache_destroy(unikv_cache_t* cache);
void leveldb_cache_destroy(unikv_cache_t* cache) {
    unikv_cache_destroy(cache);
}

unikv_env_t* leveldb_create_default_env(void);
unikv_env_t* leveldb_create_default_env(void) {
    return unikv_create_default_env();
}

void leveldb_env_destroy(unikv_env_t* env);
void leveldb_env_destroy(unikv_env_t* env) {
    unikv_env_destroy(env);
}

char* leveldb_env_get_test_directory(unikv_env_t* env);
char* leveldb_env_get_test_directory(unikv_env_t* env) {
    return unikv_env_get_test_directory(env);
}

void leveldb_free(void* ptr);
void leveldb_free(void* ptr) {
    unikv_free(ptr);
}

int leveldb_major_version(void);
int leveldb_major_version(void) {
    return unikv_major_version();
}

int leveldb_minor_version(void);
int leveldb_minor_version(void) {
    return unikv_minor_version();
}
