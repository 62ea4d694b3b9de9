/* Decoding and the step of the reference interpreter.
 *
 * A word is an instruction when exactly one row of isa.def fits it; the rows are tried one by one.
 * The mnemonic names the function that carries it out.
 */
#ifndef IPU_TESTS_REFERENCE_RUN_H
#define IPU_TESTS_REFERENCE_RUN_H

#include <stdlib.h>

#include "tests/reference/control.h"
#include "tests/reference/integer.h"
#include "tests/reference/matrix.h"
#include "tests/reference/memory.h"

struct ref_action {
    const char *mnemonic;
    int (*run)(struct ref *r);
    int_operation *integer;
    lane_operation *lanes;
    int accepted; /* of a comparison */
    acc_operation *accumulate;
};

#define INTEGER(name, f)                                                                           \
    {                                                                                              \
        name, .integer = f                                                                         \
    }
#define LANES(name, f)                                                                             \
    {"f32" name, .lanes = f},                                                                      \
    {                                                                                              \
        "f32v2" name, .lanes = f                                                                   \
    }
#define HALVES(name, f)                                                                            \
    {"f16v2" name, .lanes = f},                                                                    \
    {                                                                                              \
        "f16v4" name, .lanes = f                                                                   \
    }
#define ARITHMETIC(name, f) LANES(name, f), HALVES(name, f)
#define COMPARE(name, set)                                                                         \
    {"f32" name, .accepted = (set)}, {"f32v2" name, .accepted = (set)},                            \
        {"f16v2" name, .accepted = (set)},                                                         \
    {                                                                                              \
        "f16v4" name, .accepted = (set)                                                            \
    }
#define ACCUMULATE(name, f)                                                                        \
    {                                                                                              \
        name, .accumulate = f                                                                      \
    }
#define RUN(name, f)                                                                               \
    {                                                                                              \
        name, .run = f                                                                             \
    }

static const struct ref_action ref_actions[] = {
    INTEGER("abs", int_abs),
    INTEGER("add", int_add),
    INTEGER("and", int_and),
    INTEGER("and64", int_and),
    INTEGER("andc", int_andc),
    INTEGER("andc64", int_andc),
    INTEGER("bitrev8", int_bitrev8),
    INTEGER("clz", int_clz),
    INTEGER("cmpeq", int_cmpeq),
    INTEGER("cmpne", int_cmpne),
    INTEGER("cmpslt", int_cmpslt),
    INTEGER("cmpult", int_cmpult),
    INTEGER("cms", int_cms),
    INTEGER("max", int_max),
    INTEGER("min", int_min),
    INTEGER("mul", int_mul),
    INTEGER("not", int_not),
    INTEGER("not64", int_not),
    INTEGER("or", int_or),
    INTEGER("or64", int_or),
    INTEGER("popc", int_popc),
    INTEGER("roll16", int_roll16),
    INTEGER("roll8l", int_roll8l),
    INTEGER("roll8r", int_roll8r),
    INTEGER("setzi", int_setzi),
    INTEGER("shl", int_shl),
    INTEGER("shr", int_shr),
    INTEGER("shrs", int_shrs),
    INTEGER("shuf8x8hi", int_shuf_hi),
    INTEGER("shuf8x8lo", int_shuf_lo),
    INTEGER("sort4x16hi", int_sort4x16hi),
    INTEGER("sort4x16lo", int_sort4x16lo),
    INTEGER("sort8", int_sort8),
    INTEGER("sort8x8hi", int_sort8x8hi),
    INTEGER("sort8x8lo", int_sort8x8lo),
    INTEGER("sub", int_sub),
    INTEGER("swap8", int_swap8),
    INTEGER("xnor", int_xnor),
    INTEGER("xor", int_xor),
    RUN("atom", run_atom),
    RUN("movz", run_movnz),
    RUN("roll32", run_roll32),
    RUN("sort4x32hi", run_sort4x32hi),
    RUN("sort4x32lo", run_sort4x32lo),
    RUN("tapack", run_tapack),

    ARITHMETIC("add", number_add),
    ARITHMETIC("sub", lane_sub),
    ARITHMETIC("mul", number_multiply),
    ARITHMETIC("absadd", lane_absadd),
    ARITHMETIC("absmax", lane_absmax),
    ARITHMETIC("max", lane_max),
    ARITHMETIC("min", lane_min),
    COMPARE("cmpeq", CMP_EQUAL),
    COMPARE("cmpne", CMP_LESS | CMP_GREATER | CMP_UNORDERED),
    COMPARE("cmplt", CMP_LESS),
    COMPARE("cmple", CMP_LESS | CMP_EQUAL),
    COMPARE("cmpgt", CMP_GREATER),
    COMPARE("cmpge", CMP_GREATER | CMP_EQUAL),
    RUN("f32clamp", run_clamp),
    RUN("f32v2clamp", run_clamp),
    RUN("f16v2clamp", run_clamp),
    RUN("f16v4clamp", run_clamp),
    RUN("f32div", run_f32div),
    RUN("f32oox", run_f32oox),
    RUN("f32sqrt", run_f32sqrt),
    RUN("f16tof32", run_f16tof32),
    RUN("f16v2tof32", run_f16v2tof32),
    RUN("f32tof16", run_f32tof16),
    RUN("f32v2tof16", run_f32v2tof16),
    RUN("f32v4tof16", run_f32v4tof16),
    RUN("f16v2tof8", run_f16v2tof8),
    RUN("f16v8tof8", run_f16v8tof8),
    RUN("f8v2tof16", run_f8v2tof16),
    RUN("f8v4tof16", run_f8v4tof16),
    RUN("f32fromi32", run_f32fromi32),
    RUN("f32fromui32", run_f32fromui32),
    RUN("f32int", run_f32int),
    RUN("f32toi32", run_f32toi32),
    RUN("f32toui32", run_f32toui32),
    RUN("f32sufromui", run_f32sufromui),
    RUN("f32v2sufromui", run_f32sufromui),
    RUN("f16v2sufromui", run_f16sufromui),
    RUN("f16v4sufromui", run_f16sufromui),
    RUN("f16v2sum", run_f16sum),
    RUN("f16v4sum", run_f16sum),
    RUN("f16v2maxc", run_f16v2maxc),
    RUN("f16v4maxc", run_f16v4maxc),
    RUN("f32class", run_f32class),
    RUN("f32v2class", run_f32v2class),
    RUN("f16v2class", run_f16class),
    RUN("f16v4class", run_f16class),
    RUN("f8v4class", run_f8v4class),
    RUN("urand32", run_urand),
    RUN("urand64", run_urand),
    RUN("f32v2grand", run_f32v2grand),
    RUN("f16v2grand", run_f16v2grand),
    RUN("f16v4rmask", run_f16v4rmask),
    RUN("f32v2rmask", run_f32v2rmask),

    RUN("f32mac", run_f32mac),
    RUN("f32v2mac", run_f32mac),
    RUN("f16v2cmac", run_f16cmac),
    RUN("f16v4cmac", run_f16cmac),
    ACCUMULATE("f32v4acc", acc_plain),
    ACCUMULATE("f32v4absacc", number_abs),
    ACCUMULATE("f32v4sqacc", acc_square),
    ACCUMULATE("f16v4acc", acc_plain),
    ACCUMULATE("f16v4absacc", number_abs),
    ACCUMULATE("f16v8acc", acc_plain),
    ACCUMULATE("f16v8absacc", number_abs),
    ACCUMULATE("f16v8sqacc", acc_square),
    RUN("f32v2axpy", run_f32v2axpy),
    RUN("f16v4mix", run_f16v4mix),
    RUN("f16v4gacc", run_f16v4gacc),
    RUN("f32v2aop", run_f32v2aop),
    RUN("f32v2gina", run_f32v2gina),
    RUN("f16v2gina", run_f16v2gina),
    RUN("f16v4stacc", run_f16v4stacc),
    RUN("f16v4istacc", run_f16v4istacc),
    RUN("f16v4hihoamp", run_amp),
    RUN("f16v4hihov4amp", run_amp),
    RUN("f16v4sihoamp", run_amp),
    RUN("f16v4sisoamp", run_amp),
    RUN("f32sisoamp", run_amp),
    RUN("f32sisov2amp", run_amp),
    RUN("f8v8hihov4amp", run_amp),
    RUN("f16v4hihoslic", run_slic),
    RUN("f16v4hihov4slic", run_slic),
    RUN("f16v4sihoslic", run_slic),
    RUN("f16v4sisoslic", run_slic),
    RUN("f32sisoslic", run_slic),
    RUN("f32sisov2slic", run_slic),
    RUN("f8v8hihov4slic", run_slic),

    RUN("ld32", run_memory),
    RUN("ld32step", run_memory),
    RUN("ld64", run_memory),
    RUN("ld64step", run_memory),
    RUN("ld128", run_memory),
    RUN("ld128step", run_memory),
    RUN("lds8", run_memory),
    RUN("lds8step", run_memory),
    RUN("ldz8", run_memory),
    RUN("ldz8step", run_memory),
    RUN("lds16", run_memory),
    RUN("lds16step", run_memory),
    RUN("ldz16", run_memory),
    RUN("ldz16step", run_memory),
    RUN("ldb8", run_memory),
    RUN("ldb8step", run_memory),
    RUN("ldb16", run_memory),
    RUN("ldb16step", run_memory),
    RUN("st32", run_memory),
    RUN("st32step", run_memory),
    RUN("st64", run_memory),
    RUN("st64step", run_memory),
    RUN("stm32", run_stm32),
    RUN("stm32step", run_stm32step),
    RUN("ldd16a32", run_ldd16a32),
    RUN("ldd16a64", run_ldd16a64),
    RUN("ldd16b16", run_ldd16b16),
    RUN("ldd16v2a32", run_ldd16v2a32),
    RUN("ld64a32", run_ld64a32),
    RUN("ldb16b16", run_ldb16b16),
    RUN("ld2x64pace", run_ld2x64pace),
    RUN("ld64a32pace", run_ld64a32pace),
    RUN("ld64b16pace", run_ld64b16pace),
    RUN("ldst64pace", run_ldst64pace),
    RUN("st64pace", run_st64pace),
    RUN("ld2xst64pace", run_ld2xst64pace),

    RUN("br", run_br),
    RUN("bri", run_bri),
    RUN("brz", run_brz),
    RUN("brnz", run_brnz),
    RUN("brneg", run_brneg),
    RUN("brpos", run_brpos),
    RUN("brnzdec", run_brnzdec),
    RUN("call", run_call),
    RUN("rpt", run_rpt),
    RUN("exitz", run_exitz),
    RUN("exitnz", run_exitnz),
    RUN("exitneg", run_exitneg),
    RUN("exitpos", run_exitpos),
    RUN("trap", run_trap),
    RUN("get", run_get),
    RUN("put", run_put),
    RUN("uget", run_uget),
    RUN("uput", run_uput),
};
#undef INTEGER
#undef LANES
#undef HALVES
#undef ARITHMETIC
#undef COMPARE
#undef ACCUMULATE
#undef RUN

/* NULL for what the reference does not define: transcendentals and the supervisor's instructions.
 */
static const struct ref_action *ref_action_find(unsigned form)
{
    static const struct ref_action *known[ISA_COUNT];
    const char *name = isa_forms[form].mnemonic;
    if (known[form] != NULL)
        return known[form];
    for (size_t i = 0; i < sizeof ref_actions / sizeof ref_actions[0]; i++)
        if (strcmp(ref_actions[i].mnemonic, name) == 0)
            known[form] = &ref_actions[i];
    return known[form];
}

/* --- decoding --- */

static bool ref_operand_value(const struct isa_operand *o, uint32_t word, int32_t *value)
{
    uint32_t raw = 0;
    for (unsigned i = 0; i < ISA_MAX_FIELDS && o->fields[i].width != 0; i++) {
        uint32_t piece = word >> o->fields[i].bit_low & ((1u << o->fields[i].width) - 1);
        raw |= piece << o->fields[i].value_low;
    }
    if (o->kind == ISA_KIND_SIMM)
        raw = sign_extend(raw, o->width);
    if (o->kind == ISA_KIND_UPPR)
        raw <<= 20;
    if (o->kind == ISA_KIND_WADDR)
        raw *= 4;
    *value = (int32_t)raw;
    return o->kind >= ISA_KIND_FIRST_IMMEDIATE || raw % ref_kind_count(o->kind) == 0;
}

/* The one form that fits, or false. In a bundle bit 31 counts for nothing. */
static bool ref_decode(uint32_t word, bool bundled, enum isa_lane lane, struct isa_inst *inst)
{
    for (unsigned form = 0; form < ISA_COUNT; form++) {
        const struct isa_form *f = &isa_forms[form];
        uint32_t bits = bundled ? word & 0x7fffffffu : word;
        if (f->words != 1 || f->lane != lane || (bits & f->mask) != f->match ||
            (bits >> 31 != f->match >> 31) || (bundled && !f->coissue))
            continue;
        *inst = (struct isa_inst){.form = (uint16_t)form};
        for (unsigned i = 0; i < f->operand_count; i++)
            if (!ref_operand_value(&f->operands[i], bits, &inst->operand[i]))
                return false;
        return true;
    }
    return false;
}

/* Registers that a half writes, MRF in the low 16 bits; *twice when two operands write one. Zero
 * registers and a worker's bases do not count. */
static uint32_t ref_writes(const struct isa_inst *inst, bool *twice)
{
    const struct isa_form *f = &isa_forms[inst->form];
    uint32_t all = 0, ignored = 0xc000f000u;
    for (unsigned i = 0; i < f->operand_count; i++) {
        const struct isa_operand *o = &f->operands[i];
        if (o->access != ISA_ACCESS_W && o->access != ISA_ACCESS_RW)
            continue;
        uint32_t mask = ((1u << ref_kind_count(o->kind)) - 1) << inst->operand[i];
        if (!ref_kind_main(o->kind))
            mask <<= 16;
        *twice |= (all & mask & ~ignored) != 0;
        /* The two destinations of ld2x64pace must differ, also when both are $azeros. */
        *twice |= (all & mask) != 0 && strcmp(f->mnemonic, "ld2x64pace") == 0;
        all |= mask;
    }
    return all & ~ignored;
}

/* --- executing --- */

static int ref_half_run(struct ref *r, const struct isa_inst *inst)
{
    const struct ref_action *action = ref_action_find(inst->form);
    r->inst = *inst;
    if (action == NULL)
        abort();
    if (action->integer != NULL) {
        /* setzi has its only source where binary operations have the first. */
        return int_run(r, action->integer);
    }
    if (action->lanes != NULL)
        return lanes_run(r, action->lanes);
    if (action->accepted != 0)
        return compare_run(r, action->accepted);
    if (action->accumulate != NULL)
        return acc_run(r, action->accumulate);
    return action->run(r);
}

/* Slots of an instruction, facts/timing_isa.md section 2. */
static unsigned ref_slots(const struct isa_inst *inst)
{
    static const struct {
        const char *mnemonic;
        unsigned slots;
    } long_ones[] = {{"f32div", 3},   {"f32ln", 6},     {"f32log2", 6},  {"f32exp", 3},
                     {"f32exp2", 3},  {"f32tanh", 5},   {"f32sigm", 5},  {"f32sqrt", 5},
                     {"f32oorx", 4},  {"f32oox", 3},    {"f16v2ln", 2},  {"f16v2log2", 2},
                     {"f16v2exp", 2}, {"f16v2exp2", 2}, {"f16v2sigm", 2}};
    for (size_t i = 0; i < sizeof long_ones / sizeof long_ones[0]; i++)
        if (strcmp(isa_forms[inst->form].mnemonic, long_ones[i].mnemonic) == 0)
            return long_ones[i].slots;
    return 1;
}

struct ref_decoded {
    struct isa_inst half[2];
    unsigned halves;
    uint32_t bytes;
    int fault;
};

static void ref_decode_at(const struct ref *r, uint32_t pc, struct ref_decoded *d)
{
    uint32_t word = (uint32_t)ref_load(r, pc, 4), next = (uint32_t)ref_load(r, pc + 4, 4);
    bool bundle = word >> 31 != 0, twice = false;
    *d = (struct ref_decoded){.halves = bundle ? 2 : 1, .bytes = bundle ? 8 : 4};
    bool known = bundle ? next >> 31 != 0 && ref_decode(word, true, ISA_LANE_MAIN, &d->half[0]) &&
                              ref_decode(next, true, ISA_LANE_AUX, &d->half[1])
                        : ref_decode(word, false, ISA_LANE_MAIN, &d->half[0]) ||
                              ref_decode(word, false, ISA_LANE_AUX, &d->half[0]);
    uint32_t written[2] = {0, 0};
    for (unsigned i = 0; known && i < d->halves; i++) {
        known = isa_forms[d->half[i].form].contexts != ISA_CONTEXTS_SUPERVISOR;
        written[i] = ref_writes(&d->half[i], &twice);
    }
    if (!known)
        d->fault = REF_INVALID_INSTR;
    else if (twice || (written[0] & written[1]) != 0)
        d->fault = REF_INVALID_OP;
}

/* A repeat body is made of bundles without control or system instructions. */
static bool ref_repeatable(const struct ref_decoded *d)
{
    if (d->halves != 2 || d->fault != 0)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        enum isa_class class_ = isa_forms[d->half[i].form].class_;
        if (class_ == ISA_CLASS_CONTROL || class_ == ISA_CLASS_SYSTEM)
            return false;
    }
    return true;
}

/* Executes one instruction or bundle; false when the worker stopped. A fault of the first half
 * leaves everything as it was; one of the second leaves what the first did [G]. */
static inline bool ref_step(struct ref *r)
{
    struct ref_decoded d;
    if (r->pc < REF_SRAM || r->pc >= REF_REGION1) {
        r->fault = REF_INVALID_PC;
        return false;
    }
    ref_decode_at(r, r->pc, &d);
    if (r->repeating && !ref_repeatable(&d)) {
        r->fault = REF_INVALID_INSTR;
        return false;
    }
    r->fault = d.fault;
    r->next_pc = r->pc + d.bytes;
    unsigned slots = 1;
    for (unsigned i = 0; i < d.halves && r->fault == 0; i++) {
        r->fault = ref_half_run(r, &d.half[i]);
        if (ref_slots(&d.half[i]) > slots)
            slots = ref_slots(&d.half[i]);
    }
    ref_commit(r);
    if (r->fault != 0)
        return false;
    r->instructions++;
    if (r->repeating && r->next_pc == r->repeat_end) {
        r->repeat_count--;
        r->repeating = r->repeat_count != 0;
        if (r->repeating)
            r->next_pc = r->repeat_first;
    }
    r->pc = r->next_pc;
    r->cycle += 6 * slots;
    return r->active;
}

#endif
