/* ipuctl workload: writes the named workloads as files. Needs no daemon. */
#include "client/command.h"

#include "proto/build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool profile_of(struct context *c, Ipu__Workload__ProfileMode *out)
{
    const char *text = option_text(c, "profile");
    *out = IPU__WORKLOAD__PROFILE_MODE__PROFILE_OVERALL;
    if (!text || strcmp(text, "overall") == 0)
        return true;
    *out = strcmp(text, "full") == 0 ? IPU__WORKLOAD__PROFILE_MODE__PROFILE_FULL
                                     : IPU__WORKLOAD__PROFILE_MODE__PROFILE_NONE;
    if (strcmp(text, "full") == 0 || strcmp(text, "none") == 0)
        return true;
    ipu_error_set(&c->error, IPU_ERR_INVALID, "--profile expects none, overall or full, not \"%s\"",
                  text);
    return false;
}

static bool size_option(struct context *c, const char *name, uint64_t fallback, uint64_t *out)
{
    return option_number(c, name, 1, 1 << 28, fallback, out);
}

static int build_mlp_file(struct context *c, bool siglip, struct build_mlp *p, struct buffer *out)
{
    bool ok = size_option(c, "batch", 1, &p->batch) && size_option(c, "tokens", 17, &p->tokens) &&
              size_option(c, "dim", 64, &p->dimension) &&
              size_option(c, "hidden", 128, &p->hidden) &&
              option_number(c, "blocks", 1, 4096, siglip ? 3 : 1, &p->blocks);
    if (ok && !siglip)
        ok = size_option(c, "rows", 17, &p->tokens);
    if (!ok)
        return command_fail(c);
    const char *activation = option_text(c, "activation");
    p->bias = option_flag(c, "bias");
    p->relu = activation && strcmp(activation, "relu") == 0;
    if (activation && !p->relu && strcmp(activation, "gelu") != 0)
        return command_usage(c, "--activation expects gelu or relu, not \"%s\"", activation);
    ok = siglip ? build_siglip_mlp(p, out) : build_plain_mlp(p, out);
    return ok ? 0 : command_usage(c, "out of memory");
}

static int build(struct context *c, struct buffer *out)
{
    struct build_mlp p = {.batch = 1};
    uint64_t tiles, inner, columns;
    if (!profile_of(c, &p.profile) || !option_number(c, "tiles", 64, 1472, 64, &tiles) ||
        !option_number(c, "seed", 0, UINT64_MAX, 1, &p.seed))
        return command_fail(c);
    if (tiles % 64)
        return command_usage(c, "--tiles must be a multiple of 64 from 64 to 1472, not %llu",
                             (unsigned long long)tiles);
    p.tiles = (uint32_t)tiles;
    const char *family = c->arguments[0];
    if (strcmp(family, "siglip-mlp") == 0 || strcmp(family, "mlp") == 0)
        return build_mlp_file(c, family[0] == 's', &p, out);
    if (strcmp(family, "gemm") != 0)
        return command_usage(c, "unknown workload \"%s\"; expects siglip-mlp, mlp or gemm", family);
    if (!size_option(c, "rows", 17, &p.tokens) || !size_option(c, "inner", 64, &inner) ||
        !size_option(c, "columns", 64, &columns))
        return command_fail(c);
    return build_gemm(p.tokens, inner, columns, p.tiles, p.seed, p.profile, out)
               ? 0
               : command_usage(c, "out of memory");
}

static int run(struct context *c)
{
    const char *path = option_text(c, "file");
    if (!path)
        return command_usage(c, "-o FILE is required (\"-\" for standard output)");
    struct buffer out = {0};
    int code = build(c, &out);
    if (code == 0 && strcmp(path, "-") == 0) {
        fwrite(out.data, 1, out.size, stdout);
    } else if (code == 0) {
        int rc = buffer_write_file(path, out.data, out.size);
        if (rc < 0)
            code = command_usage(c, "cannot write %s: %s", path, strerror(-rc));
    }
    buffer_free(&out);
    return code;
}

const struct command command_workload = {
    .name = "workload",
    .arguments = "siglip-mlp|mlp|gemm",
    .minimum = 1,
    .maximum = 1,
    .summary = "write a workload file",
    .details = "siglip-mlp: --batch --tokens --dim --hidden --blocks; blocks of x W1 -> GELU -> W2 "
               "in a repeat.\n"
               "mlp: --rows --dim --hidden [--bias] [--activation gelu|relu].   gemm: --rows "
               "--inner --columns.",
    .options = {{"batch", 0, "N", "siglip-mlp: batch, 1"},
                {"tokens", 0, "N", "siglip-mlp: tokens, 17"},
                {"dim", 0, "N", "model dimension, 64"},
                {"hidden", 0, "N", "hidden dimension, 128"},
                {"blocks", 0, "N", "siglip-mlp: blocks, 3"},
                {"rows", 0, "M", "mlp, gemm: rows, 17"},
                {"inner", 0, "K", "gemm: inner size, 64"},
                {"columns", 0, "N", "gemm: columns, 64"},
                {"bias", 0, NULL, "mlp: add biases"},
                {"activation", 0, "NAME", "mlp: gelu or relu"},
                {"tiles", 't', "N", "execution tiles: a multiple of 64 up to 1472, 64"},
                {"seed", 0, "N", "of the generated data, 1"},
                {"profile", 0, "MODE", "none, overall (default) or full"},
                {"file", 'o', "FILE", "where to; \"-\" is standard output"}},
    .run = run,
};
