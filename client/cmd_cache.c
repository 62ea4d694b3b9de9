/* ipuctl cache stats|list|verify|gc|explain and search list|show|drop. */
#include "client/command.h"

#include <stdio.h>
#include <string.h>

static int cache_stats(struct context *c)
{
    const Ipu__Rpc__CacheStats *s;
    if (ipu_cache_stats(c->client, &s, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &s->base);
    printf("%-10s %9s %14s %9s %9s %9s\n", "KIND", "OBJECTS", "BYTES", "HITS", "MISSES", "DAMAGED");
    for (size_t i = 0; i < s->n_kinds; i++) {
        const Ipu__Rpc__CacheKind *k = s->kinds[i];
        printf("%-10s %9llu %14llu %9llu %9llu %9llu\n", k->kind, (unsigned long long)k->objects,
               (unsigned long long)k->bytes, (unsigned long long)k->hits,
               (unsigned long long)k->misses, (unsigned long long)k->damaged);
    }
    printf("total %llu of %llu bytes, %llu pinned, %llu objects evicted, database %llu bytes\n",
           (unsigned long long)s->bytes, (unsigned long long)s->limit,
           (unsigned long long)s->pinned_bytes, (unsigned long long)s->evicted,
           (unsigned long long)s->database_bytes);
    return 0;
}

static int cache_list(struct context *c)
{
    uint64_t limit;
    const Ipu__Rpc__CacheList *l;
    const char *kind = option_text(c, "kind");
    if (!option_number(c, "limit", 1, 500, 100, &limit))
        return command_fail(c);
    if (ipu_cache_list(c->client, kind ? kind : "", (unsigned)limit, &l, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &l->base);
    for (size_t i = 0; i < l->n_objects; i++) {
        const Ipu__Rpc__CacheObject *o = l->objects[i];
        printf("%s %-8s %12llu%s %s\n", o->digest, o->kind, (unsigned long long)o->bytes,
               o->pinned ? " pinned" : "", o->key);
    }
    return 0;
}

static int cache_work(struct context *c, bool verify)
{
    const Ipu__Rpc__CacheWork *w;
    uint64_t target;
    if (!option_size(c, "target", 0, &target))
        return command_fail(c);
    if (!verify && !option_flag(c, "all") && !option_flag(c, "target"))
        return command_usage(c, "gc needs --target BYTES or --all");
    int rc = verify ? ipu_cache_verify(c->client, &w, &c->error)
                    : ipu_cache_gc(c->client, target, option_flag(c, "all"), &w, &c->error);
    if (rc < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &w->base);
    printf("objects=%llu bytes=%llu damaged=%llu\n", (unsigned long long)w->objects,
           (unsigned long long)w->bytes, (unsigned long long)w->damaged);
    return 0;
}

static int cache_explain(struct context *c)
{
    uint64_t job;
    const Ipu__Rpc__CacheExplain *e;
    if (!argument_job(c, 1, &job) || ipu_cache_explain(c->client, job, &e, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &e->base);
    printf("key %s\npackage %s\n", e->key, e->package[0] ? e->package : "(not cached)");
    for (size_t i = 0; i < e->n_parts; i++)
        printf("  %-16s %s\n", e->parts[i]->name, e->parts[i]->value);
    return 0;
}

static int run_cache(struct context *c)
{
    const char *verb = c->arguments[0];
    if (!command_connect(c))
        return command_fail(c);
    if (strcmp(verb, "stats") == 0)
        return cache_stats(c);
    if (strcmp(verb, "list") == 0)
        return cache_list(c);
    if (strcmp(verb, "verify") == 0 || strcmp(verb, "gc") == 0)
        return cache_work(c, verb[0] == 'v');
    if (strcmp(verb, "explain") == 0)
        return cache_explain(c);
    return command_usage(c, "unknown \"%s\"; expects stats, list, verify, gc or explain", verb);
}

/* --- search states ---------------------------------------------------------------------------- */

static int search_list(struct context *c)
{
    uint64_t limit;
    const Ipu__Rpc__SearchList *l;
    if (!option_number(c, "limit", 1, 200, 50, &limit) ||
        ipu_search_list(c->client, (unsigned)limit, &l, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &l->base);
    printf("%-16s %10s %9s %10s  %s\n", "KEY", "BYTES", "ATTEMPTS", "CYCLES", "WORKLOAD");
    for (size_t i = 0; i < l->n_states; i++) {
        const Ipu__Rpc__SearchState *s = l->states[i];
        printf("%-16.16s %10llu %9llu %10llu  %s\n", s->key, (unsigned long long)s->bytes,
               (unsigned long long)s->attempts, (unsigned long long)s->best_cycles, s->workload);
    }
    return 0;
}

static int run_search(struct context *c)
{
    const char *verb = c->arguments[0];
    if (!command_connect(c))
        return command_fail(c);
    if (strcmp(verb, "list") == 0)
        return search_list(c);
    bool show = strcmp(verb, "show") == 0;
    if (!show && strcmp(verb, "drop") != 0)
        return command_usage(c, "unknown \"%s\"; expects list, show KEY or drop KEY", verb);
    if (c->argument_count < 2)
        return command_usage(c, "%s needs a KEY (see `ipuctl search list`)", verb);
    if (!show)
        return ipu_search_drop(c->client, c->arguments[1], &c->error) < 0 ? command_fail(c) : 0;
    const Ipu__Rpc__SearchState *s;
    if (ipu_search_show(c->client, c->arguments[1], &s, &c->error) < 0)
        return command_fail(c);
    if (c->json)
        return command_json(c, &s->base);
    printf("key %s\nworkload %s\nattempts %llu\nbest_cycles %llu\nbytes %llu\n%s\n", s->key,
           s->workload, (unsigned long long)s->attempts, (unsigned long long)s->best_cycles,
           (unsigned long long)s->bytes, s->text);
    return 0;
}

const struct command command_cache = {
    .name = "cache",
    .arguments = "stats|list|verify|gc|explain [JOB]",
    .minimum = 1,
    .maximum = 2,
    .summary = "look at and tend the caches",
    .details = "stats: counters by kind. list: objects, latest use first. verify: read every "
               "object and drop damaged\n"
               "ones. gc: evict the least recently used objects that no unfinished job needs. "
               "explain: the "
               "parts of the\n"
               "cache key of a job. verify and gc are for root and the daemon's own user.",
    .options = {{"kind", 'k', "KIND", "list: workload, package, kernel, search, profile or output"},
                {"limit", 'n', "N", "list: at most N objects"},
                {"target", 't', "BYTES", "gc: until no more than BYTES remain; 500M, 2G"},
                {"all", 'a', NULL, "gc: everything that is not in use"}},
    .run = run_cache,
};
const struct command command_search = {
    .name = "search",
    .arguments = "list|show KEY|drop KEY",
    .minimum = 1,
    .maximum = 2,
    .summary = "look at and drop stored search states",
    .details =
        "KEY may be a unique beginning of at least 4 digits. A compile of a known graph goes "
        "on from its state.",
    .options = {{"limit", 'n', "N", "list: at most N states"}},
    .run = run_search,
};
