/* What programs and single instructions of tests are made of: values, words, machines. */
#ifndef IPU_TESTS_REFERENCE_VALUES_H
#define IPU_TESTS_REFERENCE_VALUES_H

#include "tests/reference/random.h"
#include "tests/reference/run.h"

enum { GEN_CODE = 0x4c100 };

/* Forms that move accumulators as raw bits. */
static inline bool gen_raw_move(const char *name)
{
    return strcmp(name, "f32v2gina") == 0 || strcmp(name, "f16v4stacc") == 0 ||
           strcmp(name, "f16v4istacc") == 0;
}

#define GEN(form_, ...)                                                                            \
    (struct isa_inst)                                                                              \
    {                                                                                              \
        .form = ISA_##form_, .operand = { __VA_ARGS__ }                                            \
    }

/* The generator's own encoder: fields as the table says. */
static inline uint32_t gen_encode(const struct isa_inst *inst, bool bundled)
{
    const struct isa_form *f = &isa_forms[inst->form];
    uint32_t word = f->match | (bundled ? 0x80000000u : 0);
    for (unsigned i = 0; i < f->operand_count; i++) {
        const struct isa_operand *o = &f->operands[i];
        uint32_t raw = (uint32_t)inst->operand[i];
        if (o->kind == ISA_KIND_UPPR)
            raw >>= 20;
        if (o->kind == ISA_KIND_WADDR)
            raw >>= 2;
        for (unsigned k = 0; k < ISA_MAX_FIELDS && o->fields[k].width != 0; k++)
            word |= (raw >> o->fields[k].value_low & ((1u << o->fields[k].width) - 1))
                    << o->fields[k].bit_low;
    }
    return word;
}

/* An f16 that is not too large: sums and products of a few stay finite. */
static inline uint32_t gen_tame_half(struct random *random)
{
    uint32_t bits = (uint32_t)random_next(random);
    return (bits & 0x83ff) | (12 + (bits >> 16 & 3)) << 10;
}

static inline uint32_t gen_value(struct random *random)
{
    static const uint32_t special[] = {
        0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x3f800000,
        0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x477fe000, 0x477ff000, 0x477fefff,
        0x4f000000, 0xcf000000, 0x4effffff, 0x4f800000, 0x7c007c00, 0xfc007c00, 0x7bff7bff,
        0x7e007d01, 0x00010001, 0x03ff0400, 0x80008000, 0x33800000, 0x33000001, 0xffffffff,
        0x7fffffff, 0x80808080, 0x7f7f7f7f, 0x00ff80ff};
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        return (uint32_t)random_next(random);
    case 2:
        return special[random_below(random, sizeof special / sizeof special[0])];
    case 3: /* an f32 near 1 */
        return ((uint32_t)random_next(random) & 0x80ffffff) | 0x3f000000;
    case 4:
        return random_below(random, 40);
    default:
        return gen_tame_half(random) | gen_tame_half(random) << 16;
    }
}

/* A machine before the program: everything random. */
static inline void gen_state(struct random *random, struct ref *r)
{
    for (unsigned i = 0; i < 12; i++)
        r->m[i] = gen_value(random);
    for (unsigned i = 0; i < 14; i++)
        r->a[i] = gen_value(random);
    for (unsigned i = 0; i < 32; i++) {
        uint32_t *chain = i < 16 ? r->even[i / 8 % 2] : r->odd[i / 8 % 2];
        chain[i % 8] = gen_value(random);
    }
    for (unsigned i = 0; i < 64; i++)
        r->cwei[i] = gen_value(random) | (uint64_t)gen_value(random) << 32;
    r->prng[0] = random_next(random);
    r->prng[1] = random_next(random);
    r->tas = gen_value(random);
    r->fp_nfmt = random_below(random, 2) * 2;
    r->fp_scl = random_below(random, 64);
    r->fp_infmt = random_below(random, 4);
    r->fp_iscl = random_below(random, 64);
    r->dbg_data = gen_value(random);
    r->m[12] = 0x58000 + 4 * random_below(random, 0x1000);
    r->m[13] = 0x58000 + 4 * random_below(random, 0x1000);
    r->worker = random_below(random, 6);
    r->cycle = r->worker;
    r->pc = GEN_CODE;
    r->active = true;
}

#endif
