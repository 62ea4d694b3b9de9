/* The caches of the store: which key leads to which object, what was learned of a workload file,
 * search states, and the housekeeping commands. Same thread and batch rules as store.h.
 */
#ifndef IPU_DAEMON_STORE_CACHE_H
#define IPU_DAEMON_STORE_CACHE_H

#include "daemon/store.h"

/* --- kernels --- `*found` tells a hit; a damaged object is a counted miss. */
IPU_MUST_CHECK int store_kernel_find(struct store *store, const char *key, struct buffer *object,
                                     bool *found, struct ipu_error *error);
IPU_MUST_CHECK int store_kernel_put(struct store *store, const char *key, const char *name,
                                    const void *data, size_t size, struct ipu_error *error);

/* --- packages --- Finding counts a hit or a miss and renews the last use. */
struct store_package {
    struct store_object object;
    uint64_t estimated_cycles;
    double compile_ms;
};
IPU_MUST_CHECK int store_package_find(struct store *store, const char *key,
                                      struct store_package *package, bool *found,
                                      struct ipu_error *error);
IPU_MUST_CHECK int store_package_put(struct store *store, const char *key,
                                     const struct store_package *package, struct ipu_error *error);

/* --- workload files --- What the compiler told about a file, so that a second submission of the
 * same bytes needs no worker to find its package. `facts` is the caller's message. */
struct store_workload {
    char package_key[STORE_KEY_TEXT];
    char search_key[STORE_KEY_TEXT];
    char name[STORE_NAME];
    uint8_t facts[256];
    size_t facts_size;
};
IPU_MUST_CHECK int store_workload_find(struct store *store, const char *key,
                                       struct store_workload *workload, bool *found,
                                       struct ipu_error *error);
IPU_MUST_CHECK int store_workload_put(struct store *store, const char *key,
                                      const struct store_workload *workload,
                                      struct ipu_error *error);

/* --- verdicts --- Result lines of outputs that have passed their check, by a digest of everything
 * that the check looked at. */
IPU_MUST_CHECK int store_verdict_find(struct store *store, const char *key,
                                      char line[STORE_RESULTS], bool *found,
                                      struct ipu_error *error);
IPU_MUST_CHECK int store_verdict_put(struct store *store, const char *key, const char *line,
                                     struct ipu_error *error);

/* --- search states --- */
struct store_search {
    char key[STORE_KEY_TEXT];
    char workload[STORE_NAME];
    uint32_t uid;
    uint64_t attempts, best_cycles, updated_us;
    struct store_object object;
};
/* `key` may be a unique prefix of at least 4 digits: IPU_ERR_NOT_FOUND, IPU_ERR_INVALID when
 * several match. */
IPU_MUST_CHECK int store_search_find(struct store *store, const char *key,
                                     struct store_search *search, struct ipu_error *error);
IPU_MUST_CHECK int store_search_put(struct store *store, const struct store_search *search,
                                    struct ipu_error *error);
IPU_MUST_CHECK int store_search_drop(struct store *store, const char *key, struct ipu_error *error);
IPU_MUST_CHECK int store_search_list(struct store *store, unsigned limit,
                                     bool (*each)(void *context, const struct store_search *search),
                                     void *context, struct ipu_error *error);

/* --- housekeeping --- */
struct store_kind_stats {
    uint64_t objects, bytes, hits, misses, damaged, evicted;
};
struct store_stats {
    struct store_kind_stats kinds[STORE_KINDS]; /* by enum store_kind */
    uint64_t bytes, limit, pinned_bytes, database_bytes;
};
IPU_MUST_CHECK int store_cache_stats(struct store *store, struct store_stats *stats,
                                     struct ipu_error *error);
/* Objects by last use, latest first; STORE_NONE = every kind. */
IPU_MUST_CHECK int store_cache_list(struct store *store, enum store_kind kind, unsigned limit,
                                    bool (*each)(void *context, const struct store_object *object),
                                    void *context, struct ipu_error *error);
/* The complete object with the smallest id above `after`: a cursor for verifying all of them.
 * IPU_ERR_NOT_FOUND at the end. */
IPU_MUST_CHECK int store_object_after(struct store *store, int64_t after,
                                      struct store_object *object, struct ipu_error *error);
/* Evicts unpinned objects, least recently used first, until at most `target` bytes remain. */
IPU_MUST_CHECK int store_cache_gc(struct store *store, uint64_t target, uint64_t *objects,
                                  uint64_t *bytes, struct ipu_error *error);

#endif
