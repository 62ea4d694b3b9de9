/* Random worker programs: legal for the most part, and now and then wrong in every way we know.
 *
 * A program is a list of segments: straight code, forward branches, calls, bounded loops, repeat
 * bodies, control registers. Address registers are set right before most memory instructions, so
 * that programs get far. $m11 and $m10 count loops and hold links; nothing else writes them.
 */
#ifndef IPU_TESTS_REFERENCE_GENERATE_H
#define IPU_TESTS_REFERENCE_GENERATE_H

#include "tests/reference/values.h"

enum { GEN_MAX_WORDS = 900, GEN_M = 10 };

struct generator {
    struct random random;
    uint8_t *sram;
    uint32_t at; /* address of the next word */
    /* Accumulators move as raw bits: then nothing may make a NaN in them. */
    bool raw_moves;
    uint32_t mess;   /* percent of deliberately wrong things */
    unsigned lowest; /* M register that plain instructions may write */
    uint16_t main[ISA_COUNT], aux[ISA_COUNT], loads[ISA_COUNT];
    unsigned main_count, aux_count, load_count;
};

/* --- which forms --- */

/* Writes accumulators with arithmetic. */
static bool gen_accumulates(const char *name)
{
    return strstr(name, "amp") != NULL || strstr(name, "slic") != NULL ||
           strstr(name, "mac") != NULL || strstr(name, "acc") != NULL ||
           strstr(name, "axpy") != NULL || strstr(name, "mix") != NULL ||
           strstr(name, "aop") != NULL;
}

static void gen_sort_forms(struct generator *g)
{
    for (unsigned id = 0; id < ISA_COUNT; id++) {
        const struct isa_form *f = &isa_forms[id];
        if (ref_action_find(id) == NULL || f->class_ == ISA_CLASS_CONTROL ||
            f->class_ == ISA_CLASS_SYSTEM)
            continue;
        bool moves = gen_raw_move(f->mnemonic);
        if (g->raw_moves ? gen_accumulates(f->mnemonic) && !moves : moves)
            continue;
        if (f->lane == ISA_LANE_AUX)
            g->aux[g->aux_count++] = (uint16_t)id;
        else if (f->class_ == ISA_CLASS_PLAIN)
            g->main[g->main_count++] = (uint16_t)id;
        else
            g->loads[g->load_count++] = (uint16_t)id;
    }
}

/* --- words --- */

static void gen_word(struct generator *g, uint32_t word)
{
    memcpy(g->sram + (g->at - REF_SRAM), &word, sizeof word);
    g->at += 4;
}

static void gen_lone(struct generator *g, struct isa_inst inst)
{
    gen_word(g, gen_encode(&inst, false));
}

static void gen_bundle(struct generator *g, struct isa_inst main, struct isa_inst aux)
{
    gen_word(g, gen_encode(&main, true));
    gen_word(g, gen_encode(&aux, true));
}

static void gen_set(struct generator *g, unsigned m, uint32_t value)
{
    gen_lone(g, GEN(SETZI_MR_ZIMM20, (int32_t)m, (int32_t)(value & 0xfffff)));
}

static void gen_nop(struct generator *g)
{
    gen_set(g, 14, 0);
}

static void gen_align8(struct generator *g, bool odd)
{
    if ((g->at % 8 != 0) != odd)
        gen_nop(g);
}

/* --- values and operands --- */

static int32_t gen_register(struct generator *g, const struct isa_operand *o)
{
    unsigned count = ref_kind_count(o->kind);
    if (!ref_kind_main(o->kind))
        return (int32_t)(random_below(&g->random, 16 / count) * count);
    /* Sources may be any; destinations are m0..m9 or dropped. */
    if (o->access == ISA_ACCESS_R)
        return (int32_t)(random_below(&g->random, 16 / count) * count);
    if (random_chance(&g->random, 5))
        return (int32_t)(12 + random_below(&g->random, 4 / count) * count);
    unsigned low = g->lowest / count;
    return (int32_t)((low + random_below(&g->random, GEN_M / count - low)) * count);
}

static int32_t gen_immediate(struct generator *g, const struct isa_operand *o, const char *name)
{
    uint32_t all = o->width >= 32 ? ~0u : (1u << o->width) - 1;
    uint32_t raw = (uint32_t)random_next(&g->random) & all;
    bool wrong = random_chance(&g->random, g->mess);
    if (o->kind == ISA_KIND_SIMM)
        return (int32_t)sign_extend(raw, o->width);
    if (o->kind == ISA_KIND_UPPR)
        return (int32_t)(raw << 20);
    if (o->kind == ISA_KIND_ENUM && !wrong) {
        if (strstr(name, "stacc") != NULL)
            return (int32_t)(raw & 1);
        if (strstr(name, "aop") != NULL)
            return 0;
        if (strstr(name, "f32") != NULL && strstr(name, "amp") != NULL)
            return (int32_t)(raw % 24);
        if (strstr(name, "amp") != NULL)
            return (int32_t)(random_chance(&g->random, 60) ? raw % 4 : raw % 4 + raw % 3 * 8);
        return (int32_t)(raw % (strstr(name, "f32s") != NULL ? 16 : 8));
    }
    if (strcmp(name, "f32int") == 0 && !wrong)
        return (int32_t)(raw % 4);
    if (strncmp(name, "sh", 2) == 0 && random_chance(&g->random, 80))
        return (int32_t)(raw % 33);
    return (int32_t)raw;
}

static struct isa_inst gen_instruction(struct generator *g, const uint16_t *forms, unsigned count)
{
    struct isa_inst inst = {.form = forms[random_below(&g->random, count)]};
    const struct isa_form *f = &isa_forms[inst.form];
    for (unsigned tries = 0; tries < 8; tries++) {
        bool twice = false;
        for (unsigned i = 0; i < f->operand_count; i++) {
            const struct isa_operand *o = &f->operands[i];
            inst.operand[i] = o->kind < ISA_KIND_FIRST_IMMEDIATE ? gen_register(g, o)
                                                                 : gen_immediate(g, o, f->mnemonic);
        }
        ref_writes(&inst, &twice);
        if (!twice)
            break;
    }
    return inst;
}

static bool gen_clash(const struct isa_inst *main, const struct isa_inst *aux)
{
    bool twice = false;
    return (ref_writes(main, &twice) & ref_writes(aux, &twice)) != 0;
}

static struct isa_inst gen_aux_beside(struct generator *g, const struct isa_inst *main)
{
    struct isa_inst aux;
    unsigned tries = 0;
    do
        aux = gen_instruction(g, g->aux, g->aux_count);
    while (gen_clash(main, &aux) && tries++ < 10 && !random_chance(&g->random, g->mess));
    return aux;
}

/* --- memory instructions with addresses that mostly work --- */

/* A place to read or write, aligned; 128-bit accesses need region 1. Stores into the code that runs
 * are part of the mess. */
static uint32_t gen_place(struct generator *g, uint32_t size)
{
    static const uint32_t windows[] = {0x58000, 0x5c000, 0x60000, 0x7bf80, 0x80000,
                                       0x80008, 0x88000, 0x90010, 0xe7c00};
    uint32_t skipped = size == 16 ? 4 : 0;
    uint32_t window = windows[skipped + random_below(&g->random, 9 - skipped)];
    if (random_chance(&g->random, g->mess))
        window = random_chance(&g->random, 50) ? g->at - 64 : 0xe8000 - 16;
    return (window + random_below(&g->random, 0x180)) / size * size;
}

/* The widest access that a mnemonic names, in bytes. */
static uint32_t gen_access_size(const char *name)
{
    uint32_t widest = 8;
    if (strncmp(name, "stm32", 5) == 0)
        return 4;
    for (const char *at = name; *at != '\0'; at++) {
        uint32_t number = (uint32_t)strtoul(at, NULL, 10);
        widest = number > widest ? number : widest;
    }
    return widest / 8;
}

/* Address registers come in two banks, $m0:2 and $m4:6, so that two instructions of a repeat body
 * can go on side by side. */
enum gen_bank { GEN_BANK_LOW = 0, GEN_BANK_HIGH = 4 };

/* Sets the pair and the stride of a pace instruction: three addresses, strides of a few atoms. */
static void gen_prepare_pace(struct generator *g, struct isa_inst *inst, enum gen_bank bank)
{
    const char *name = isa_forms[inst->form].mnemonic;
    unsigned pair = strcmp(name, "st64pace") == 0 ? 1 : 2;
    int32_t even = (int32_t)bank;
    uint32_t place[3], fields = 0;
    for (unsigned i = 0; i < 3; i++)
        place[i] = gen_place(g, i == 1 && !random_chance(&g->random, g->mess) ? 16 : 8);
    for (unsigned i = 0; i < 3; i++) {
        gen_set(g, (unsigned)even + i, place[i]);
        fields |= ((random_below(&g->random, 9) - 4u) & 0x3ff) << (10 * i);
    }
    gen_lone(g, GEN(TAPACK_MRPAIR_MR_MR_MR, even, even, even + 1, even + 2));
    gen_set(g, (unsigned)even + 2, fields);
    inst->operand[pair] = even;
    inst->operand[pair + 1] = even + 2;
}

/* Forms with an index pointer, a base and a register of deltas. */
static bool gen_prepare_deltas(struct generator *g, const char *name, enum gen_bank bank,
                               uint32_t place, uint32_t delta)
{
    if (strncmp(name, "ldd16", 5) == 0 || strcmp(name, "ld64a32") == 0) {
        bool upper = strcmp(name, "ldd16v2a32") == 0;
        gen_set(g, bank, gen_place(g, 8));
        gen_set(g, bank + 1, place);
        gen_set(g, bank + 2, upper ? delta << 16 & 0xfffff : delta);
        return true;
    }
    if (strcmp(name, "ldb16b16") == 0) {
        gen_set(g, bank, place);
        gen_set(g, bank + 1, delta | 2u << 16);
        gen_set(g, bank + 2, random_below(&g->random, 1 << 16));
        return true;
    }
    return false;
}

/* Gives a memory instruction its registers and sets them, right before it. */
static void gen_prepare(struct generator *g, struct isa_inst *inst, enum gen_bank bank)
{
    const struct isa_form *f = &isa_forms[inst->form];
    const char *name = f->mnemonic;
    bool words = strncmp(name, "stm32", 5) == 0;
    uint32_t size = gen_access_size(name), place = gen_place(g, size);
    uint32_t delta = random_below(&g->random, 8) * (words ? 1 : size);
    if (random_chance(&g->random, g->mess))
        return;
    if (strstr(name, "pace") != NULL) {
        gen_prepare_pace(g, inst, bank);
        return;
    }
    for (unsigned i = 1; i < f->operand_count; i++)
        if (f->operands[i].kind == ISA_KIND_MR)
            inst->operand[i] = (int32_t)(bank + i - 1);
    if (f->operands[0].kind == ISA_KIND_MR && f->operands[0].access != ISA_ACCESS_R)
        inst->operand[0] = (int32_t)(bank + 3);
    if (gen_prepare_deltas(g, name, bank, place, delta))
        return;
    gen_set(g, bank, place);
    gen_set(g, bank + 1, delta);
    if (f->operand_count > 3 && f->operands[3].kind == ISA_KIND_MR)
        gen_set(g, bank + 2, random_below(&g->random, 8));
    else if (f->operand_count > 3 && inst->operand[3] > 12)
        inst->operand[3] = (int32_t)random_below(&g->random, 12);
}

static struct isa_inst gen_memory(struct generator *g, enum gen_bank bank)
{
    struct isa_inst inst = gen_instruction(g, g->loads, g->load_count);
    gen_prepare(g, &inst, bank);
    return inst;
}

static struct isa_inst gen_main(struct generator *g)
{
    if (random_chance(&g->random, 50))
        return gen_instruction(g, g->main, g->main_count);
    return gen_memory(g, random_chance(&g->random, 50) ? GEN_BANK_LOW : GEN_BANK_HIGH);
}

/* --- segments --- */

static void gen_item(struct generator *g)
{
    uint32_t kind = random_below(&g->random, 100);
    if (kind < 25) {
        gen_lone(g, gen_instruction(g, g->aux, g->aux_count));
    } else if (kind < 55) {
        gen_lone(g, gen_main(g));
    } else {
        struct isa_inst main = gen_main(g);
        gen_bundle(g, main, gen_aux_beside(g, &main));
    }
}

static void gen_straight(struct generator *g, unsigned most)
{
    for (unsigned n = 1 + random_below(&g->random, most); n > 0; n--)
        gen_item(g);
}

/* Fills a word that was left for a branch to here. */
static void gen_patch(struct generator *g, uint32_t at, struct isa_inst branch, unsigned operand)
{
    branch.operand[operand] = (int32_t)g->at;
    uint32_t word = gen_encode(&branch, false);
    memcpy(g->sram + (at - REF_SRAM), &word, sizeof word);
}

static void gen_forward(struct generator *g)
{
    static const uint16_t branches[] = {ISA_BRZ_MR_WADDR19,
                                        ISA_BRNZ_MR_WADDR19,
                                        ISA_BRNEG_MR_WADDR19,
                                        ISA_BRPOS_MR_WADDR19,
                                        ISA_CALL_MR_WADDR20,
                                        ISA_BRI_WADDR19,
                                        ISA_BR_MR};
    struct isa_inst branch = {.form = branches[random_below(&g->random, 7)]};
    if (branch.form == ISA_BR_MR) {
        uint32_t set = g->at;
        gen_nop(g);
        branch.operand[0] = 9;
        gen_lone(g, branch);
        gen_straight(g, 4);
        uint32_t target = g->at + (random_chance(&g->random, g->mess) ? 2 : 0);
        struct isa_inst load = GEN(SETZI_MR_ZIMM20, 9, (int32_t)target);
        uint32_t word = gen_encode(&load, false);
        memcpy(g->sram + (set - REF_SRAM), &word, sizeof word);
        return;
    }
    unsigned operand = branch.form == ISA_BRI_WADDR19 ? 0 : 1;
    if (operand == 1)
        branch.operand[0] =
            (int32_t)random_below(&g->random, branch.form == ISA_CALL_MR_WADDR20 ? GEN_M : 16);
    uint32_t at = g->at;
    gen_nop(g);
    gen_straight(g, 4);
    if (random_chance(&g->random, g->mess))
        g->at -= 4; /* into the last instruction, maybe a bundle */
    gen_patch(g, at, branch, operand);
}

static void gen_loop(struct generator *g, unsigned counter)
{
    gen_set(g, counter, random_below(&g->random, 5));
    uint32_t start = g->at;
    gen_straight(g, 4);
    if (counter == 11 && random_chance(&g->random, 30))
        gen_loop(g, 10);
    if (random_chance(&g->random, 50)) {
        struct isa_inst back = GEN(BRNZDEC_MR_WADDR19, (int32_t)counter, (int32_t)start);
        gen_bundle(g, back, gen_aux_beside(g, &back));
        return;
    }
    gen_lone(g, GEN(BRNZDEC_MR_WADDR19, (int32_t)counter, (int32_t)start));
}

static void gen_repeat(struct generator *g)
{
    struct isa_inst body[6], rpt = GEN(RPT_ZIMM12_ZIMM8, (int32_t)random_below(&g->random, 7), 0);
    unsigned bundles = 1 + random_below(&g->random, 6);
    /* What else is in the body leaves the address registers alone. */
    g->lowest = 8;
    for (unsigned i = 0; i < bundles; i++)
        body[i] = i < 2 ? gen_memory(g, i == 0 ? GEN_BANK_LOW : GEN_BANK_HIGH)
                        : gen_instruction(g, g->main, g->main_count);
    g->lowest = 0;
    if (random_chance(&g->random, 30)) {
        gen_set(g, 9, (uint32_t)rpt.operand[0] | (random_chance(&g->random, 20) ? 0x10000 : 0));
        rpt = GEN(RPT_MR_ZIMM8, 9, 0);
    }
    rpt.operand[1] = (int32_t)(bundles - 1 + (random_chance(&g->random, g->mess) ? 1 : 0));
    bool bundled = random_chance(&g->random, 40);
    gen_align8(g, !bundled != random_chance(&g->random, g->mess));
    if (bundled)
        gen_bundle(g, rpt, gen_aux_beside(g, &rpt));
    else
        gen_lone(g, rpt);
    for (unsigned i = 0; i < bundles; i++) {
        if (random_chance(&g->random, g->mess))
            gen_lone(g, body[i]);
        else
            gen_bundle(g, body[i], gen_aux_beside(g, &body[i]));
    }
}

/* The inner loops of products, which the simulator runs in a way of its own: f16v4hihov4amp beside
 * a load or a store, in repeat bodies and in straight code; now and then something else between. */
static void gen_products(struct generator *g)
{
    static const uint16_t main[] = {ISA_LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6,
                                    ISA_LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4,
                                    ISA_LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4,
                                    ISA_ST64PACE_ARPAIR_MRPAIR_MR_PACE2IN8,
                                    ISA_LD64_ARPAIR_MR_MR_ZIMM12,
                                    ISA_ST64_ARPAIR_MR_MR_ZIMM12};
    static const uint16_t product[] = {ISA_F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6};
    struct isa_inst body[8];
    unsigned bundles = 1 + random_below(&g->random, 8);
    g->lowest = 8;
    for (unsigned i = 0; i < bundles; i++) {
        body[i] = gen_instruction(g, &main[random_below(&g->random, 6)], 1);
        if (i < 2 || random_chance(&g->random, 20))
            gen_prepare(g, &body[i], i % 2 == 0 ? GEN_BANK_LOW : GEN_BANK_HIGH);
        else /* goes on where the first one of its kind is */
            body[i] = random_chance(&g->random, 80) ? body[i % 2]
                                                    : gen_instruction(g, g->main, g->main_count);
    }
    g->lowest = 0;
    bool repeat = random_chance(&g->random, 70);
    if (repeat) {
        gen_align8(g, true);
        gen_lone(
            g, GEN(RPT_ZIMM12_ZIMM8, (int32_t)random_below(&g->random, 30), (int32_t)bundles - 1));
    }
    for (unsigned i = 0; i < bundles; i++) {
        struct isa_inst aux = gen_instruction(g, product, 1);
        for (unsigned tries = 0; gen_clash(&body[i], &aux) && tries < 20; tries++)
            aux = gen_instruction(g, product, 1);
        if (!repeat && random_chance(&g->random, 20))
            gen_lone(g, aux);
        gen_bundle(g, body[i], aux);
    }
}

static void gen_control_registers(struct generator *g)
{
    static const uint8_t readable[] = {0, 1, 2, 3, 4, 5, 6, 0x60, 0x61, 0x70, 0x71};
    static const uint8_t writable[] = {4, 5, 6, 0x70, 0x71};
    uint32_t index = readable[random_below(&g->random, sizeof readable)];
    bool wrong = random_chance(&g->random, g->mess);
    switch (random_below(&g->random, 4)) {
    case 0:
        gen_lone(g, GEN(GET_MR_CSR8, (int32_t)random_below(&g->random, GEN_M),
                        (int32_t)(wrong ? random_below(&g->random, 256) : index)));
        break;
    case 1:
        index = writable[random_below(&g->random, sizeof writable)];
        gen_lone(g, GEN(PUT_CSR8_MR, (int32_t)(wrong ? random_below(&g->random, 256) : index),
                        (int32_t)random_below(&g->random, 16)));
        break;
    case 2:
        gen_lone(g, GEN(UGET_AR_UCSR8, (int32_t)random_below(&g->random, 16),
                        (int32_t)random_below(&g->random, wrong ? 256 : 11)));
        break;
    default:
        gen_set(g, 9, (uint32_t)random_next(&g->random));
        gen_lone(g, GEN(UPUT_UCSR8_AR, (int32_t)random_below(&g->random, wrong ? 256 : 11),
                        (int32_t)random_below(&g->random, 16)));
        break;
    }
}

/* Modes change in a known way: rounding, NANOO, and only sometimes enabled exceptions. */
static void gen_modes(struct generator *g)
{
    uint32_t upper = random_below(&g->random, 4) | random_below(&g->random, 4) << 3;
    uint32_t enabled = random_chance(&g->random, 10) ? random_below(&g->random, 8) : 0;
    gen_lone(g, GEN(SETZI_AR_ZIMM20, 3, (int32_t)((upper << 16 & 0xf0000) | enabled)));
    if ((upper & 16) != 0)
        gen_lone(g, GEN(OR_AR_AR_UPPR12, 3, 3, 1 << 20));
    gen_lone(g, GEN(UPUT_UCSR8_AR, 2, 3));
}

static void gen_mess(struct generator *g)
{
    switch (random_below(&g->random, 4)) {
    case 0:
        gen_word(g, (uint32_t)random_next(&g->random));
        break;
    case 1:
        gen_lone(g, GEN(TRAP_ZIMM4, (int32_t)random_below(&g->random, 16)));
        break;
    case 2: /* the first word of a bundle alone */
        gen_word(g, gen_encode(&GEN(SETZI_MR_ZIMM20, 3, 7), true));
        break;
    default:
        gen_lone(g, GEN(SYNC_ZIMM4, 2));
        break;
    }
}

static void gen_segment(struct generator *g)
{
    uint32_t kind = random_below(&g->random, 100);
    if (random_chance(&g->random, g->mess))
        gen_mess(g);
    if (kind < 40)
        gen_straight(g, 8);
    else if (kind < 55)
        gen_forward(g);
    else if (kind < 70)
        gen_loop(g, 11);
    else if (kind < 80)
        gen_repeat(g);
    else if (kind < 87 && !g->raw_moves)
        gen_products(g);
    else if (kind < 95)
        gen_control_registers(g);
    else
        gen_modes(g);
}

/* Writes a program at GEN_CODE into g->sram; ends with an exit. */
static void gen_program(struct generator *g)
{
    gen_sort_forms(g);
    g->at = GEN_CODE;
    for (unsigned n = 4 + random_below(&g->random, 24); n > 0; n--)
        if (g->at < GEN_CODE + 4 * GEN_MAX_WORDS)
            gen_segment(g);
    gen_lone(g, (struct isa_inst){.form = (uint16_t)(ISA_EXITNEG_MR + random_below(&g->random, 4)),
                                  .operand = {(int32_t)random_below(&g->random, 16)}});
}

#endif
