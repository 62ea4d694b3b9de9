/* The choice of an instruction form for a mnemonic and its operands.
 *
 * Forms are tried in table order, those with an upper-immediate (value << 20) last, so that a value
 * that fits twice takes the plain form. Immediates known already must fit; others are accepted and
 * checked at the end. A mismatch is reported at the furthest operand that any form reached, with
 * all that would have been right there. Mode and processor are checked here, lanes in
 * instruction.c.
 */
#include "device/asm/passes.h"

#include <stdio.h>
#include <string.h>

enum { SHORTHAND_DELTA = 15 }; /* $m15: the delta of `ld32 $a, $base, imm` */

/* Where the syntax writes the operand: a pointer behind its letter, or NULL. */
static const char *written_at(const struct isa_form *form, unsigned operand)
{
    char letter = (char)('A' + operand);
    const char *at = strchr(form->syntax, ' ');
    for (; at != NULL && *at != '\0'; at++) {
        bool start = at[-1] == '$' || at[-1] == ' ' || at == form->syntax;
        if (*at == letter && start)
            return at + 1;
    }
    return NULL;
}

enum asm_post match_post(const struct isa_form *form, unsigned operand)
{
    const char *rest = written_at(form, operand);
    if (rest == NULL)
        return ASM_POST_NONE;
    if (strncmp(rest, "+=", 2) == 0)
        return ASM_POST_ADD;
    if (strncmp(rest, "++", 2) == 0)
        return ASM_POST_INCREMENT;
    if (strncmp(rest, ">>", 2) == 0)
        return ASM_POST_SHIFT;
    return rest[0] == '@' ? ASM_POST_AT : ASM_POST_NONE;
}

static bool register_matches(const struct isa_operand *want, const struct asm_operand *have)
{
    static const struct {
        char file;
        uint8_t count;
        enum asm_broadcast broadcast;
    } kinds[] = {[ISA_KIND_MR] = {'m', 1, ASM_BROADCAST_NONE},
                 [ISA_KIND_MR_PAIR] = {'m', 2, ASM_BROADCAST_NONE},
                 [ISA_KIND_AR] = {'a', 1, ASM_BROADCAST_NONE},
                 [ISA_KIND_AR_BL] = {'a', 1, ASM_BROADCAST_BL},
                 [ISA_KIND_AR_BU] = {'a', 1, ASM_BROADCAST_BU},
                 [ISA_KIND_AR_B] = {'a', 1, ASM_BROADCAST_B},
                 [ISA_KIND_AR_PAIR] = {'a', 2, ASM_BROADCAST_NONE},
                 [ISA_KIND_AR_QUAD] = {'a', 4, ASM_BROADCAST_NONE}};
    return have->file == kinds[want->kind].file && have->count == kinds[want->kind].count &&
           have->broadcast == kinds[want->kind].broadcast;
}

/* A CSR's name must belong to the space that the instruction reaches. */
static bool csr_matches(const struct isa_operand *want, const struct asm_expr *expr)
{
    if (expr->csr == NULL)
        return true;
    switch (want->kind) {
    case ISA_KIND_CSR:
        return expr->csr->space == CSR_SPACE_LOWER;
    case ISA_KIND_UCSR:
        return expr->csr->space == CSR_SPACE_UPPER;
    case ISA_KIND_CCSR:
        return expr->csr->space == CSR_SPACE_CCCS;
    default:
        return true;
    }
}

/* Converts a known value to the operand's; false when it does not fit. */
static bool immediate_value(const struct isa_operand *want, int64_t value, bool loose, int32_t *out)
{
    int64_t limit = (int64_t)1 << want->width;
    int64_t scaled = value;
    if (loose && want->kind != ISA_KIND_UPPR && want->kind != ISA_KIND_WADDR) {
        scaled = value & (limit - 1);
        if (want->kind == ISA_KIND_SIMM && scaled >= limit / 2)
            scaled -= limit;
        *out = (int32_t)scaled;
        return true;
    }
    switch (want->kind) {
    case ISA_KIND_SIMM:
        *out = (int32_t)value;
        return value >= -limit / 2 && value < limit / 2;
    case ISA_KIND_UPPR:
        *out = (int32_t)(uint32_t)(uint64_t)value;
        return value >= INT32_MIN && value <= UINT32_MAX && (value & 0xfffff) == 0;
    case ISA_KIND_WADDR:
        /* Branch targets are byte addresses; send names words (facts/asm_dialect.md 5). */
        scaled = want->width >= 19 ? value : value < limit ? value * 4 : -1;
        *out = (int32_t)scaled;
        return scaled >= 0 && scaled < limit * 4 && scaled % 4 == 0;
    default:
        *out = (int32_t)value;
        return value >= 0 && value < limit;
    }
}

static bool preferred(enum asm_prefer prefer, enum isa_kind kind)
{
    if (prefer == ASM_PREFER_SIGNED)
        return kind != ISA_KIND_ZIMM;
    return prefer != ASM_PREFER_ZERO || kind != ISA_KIND_SIMM;
}

static bool operand_matches(struct asm_context *ctx, const struct isa_operand *want,
                            const struct asm_operand *have, enum asm_prefer prefer,
                            struct asm_inst *inst, unsigned index)
{
    if (want->kind < ISA_KIND_FIRST_IMMEDIATE) {
        inst->isa.operand[index] = have->first;
        return have->file != 0 && register_matches(want, have);
    }
    if (have->file != 0 || !preferred(prefer, want->kind) || !csr_matches(want, have->expr))
        return false;
    struct asm_value value;
    inst->exprs[index] = NULL;
    if (!expr_evaluate(ctx, have->expr, &value) || value.plus != NULL || value.minus != NULL) {
        /* Not known yet: never an upper immediate, and addresses are not negative. */
        inst->exprs[index] = have->expr;
        inst->isa.operand[index] = 0;
        bool address = value.plus != NULL && value.minus == NULL;
        return want->kind != ISA_KIND_UPPR && !(address && want->kind == ISA_KIND_SIMM);
    }
    return immediate_value(want, value.constant, ctx->flags.loose_operands,
                           &inst->isa.operand[index]);
}

/* stm32step is printed with += by some tools and without by others. */
static bool post_matches(const struct isa_form *form, unsigned index, enum asm_post have)
{
    enum asm_post want = match_post(form, index);
    return have == want || (have == ASM_POST_NONE && want == ASM_POST_ADD &&
                            strcmp(form->mnemonic, "stm32step") == 0);
}

/* Operands of the form that match, from the first; all of them means a match. *post tells that the
 * first mismatch is in a suffix only. */
static unsigned matched(struct asm_context *ctx, const struct isa_form *form,
                        const struct asm_written *written, const struct asm_operand *operands,
                        unsigned count, struct asm_inst *inst, bool *post)
{
    *post = false;
    for (unsigned i = 0; i < form->operand_count; i++) {
        if (i >= count ||
            !operand_matches(ctx, &form->operands[i], &operands[i], written->prefer, inst, i))
            return i;
        if (!post_matches(form, i, operands[i].post)) {
            *post = true;
            return i;
        }
        inst->at[i] = operands[i].at;
    }
    return form->operand_count;
}

/* `ld32 $d, $base, imm`: the delta $m15 is inserted. */
static bool shorthand(const struct isa_form *form, const struct asm_written *written,
                      struct asm_operand operands[ASM_MAX_WRITTEN])
{
    if (form->operand_count != 4 || written->count != 3 || written->operands[2].file != 0 ||
        form->operands[2].kind != ISA_KIND_MR || form->operands[3].kind != ISA_KIND_ZIMM)
        return false;
    memcpy(operands, written->operands, 2 * sizeof(*operands));
    operands[2] = (struct asm_operand){
        .file = 'm', .first = SHORTHAND_DELTA, .count = 1, .at = written->operands[2].at};
    operands[3] = written->operands[2];
    return true;
}

struct search {
    struct asm_context *ctx;
    struct asm_text *text;
    const struct asm_written *written;
    unsigned first, end; /* forms of the mnemonic */
    unsigned best;       /* most operands that any form matched */
    bool wrong_post;     /* the best form failed in a suffix */
};

static bool try_form(struct search *search, unsigned id, struct asm_inst *inst)
{
    const struct isa_form *form = &isa_forms[id];
    struct asm_operand expanded[ASM_MAX_WRITTEN];
    bool post, short_form = shorthand(form, search->written, expanded);
    const struct asm_operand *operands = short_form ? expanded : search->written->operands;
    unsigned count = short_form ? 4 : search->written->count;
    struct asm_inst result = {.isa = {.form = (uint16_t)id}, .text = search->text};
    unsigned reached = matched(search->ctx, form, search->written, operands, count, &result, &post);
    if (reached == form->operand_count && count == form->operand_count) {
        *inst = result;
        return true;
    }
    unsigned seen = short_form && reached > 2 ? reached - 1 : reached;
    if (seen > search->best) {
        search->best = seen;
        search->wrong_post = false;
    }
    if (seen == search->best && post)
        search->wrong_post = true;
    return false;
}

static void list_add(char *list, size_t size, const char *item)
{
    size_t used = strlen(list);
    if (strstr(list, item) == NULL)
        snprintf(list + used, size - used, "%s%s", used != 0 ? " or " : "", item);
}

/* What the forms that got as far as the best one would take next. */
static void expectations(struct search *search, char *list, size_t size)
{
    list[0] = '\0';
    for (unsigned id = search->first; id < search->end; id++) {
        const struct isa_form *form = &isa_forms[id];
        struct asm_inst scratch = {.text = search->text};
        bool post;
        char item[64];
        unsigned reached = matched(search->ctx, form, search->written, search->written->operands,
                                   search->written->count, &scratch, &post);
        if (reached != search->best || reached >= form->operand_count)
            continue;
        list_add(list, size, operand_describe(&form->operands[reached], item, sizeof(item)));
        if (form->operand_count == 4 && reached == 2 && form->operands[3].kind == ISA_KIND_ZIMM)
            list_add(list, size, operand_describe(&form->operands[3], item, sizeof(item)));
    }
}

static int report(struct search *search)
{
    static const char *const posts[] = {[ASM_POST_NONE] = "no suffix",
                                        [ASM_POST_ADD] = "the suffix +=",
                                        [ASM_POST_INCREMENT] = "the suffix ++",
                                        [ASM_POST_SHIFT] = "the suffix >>",
                                        [ASM_POST_AT] = "the suffix @"};
    const struct asm_written *written = search->written;
    const struct isa_form *form = &isa_forms[search->first];
    unsigned best = search->best;
    char list[400];
    size_t at = best < written->count ? written->operands[best].at : search->text->length;
    expectations(search, list, sizeof(list));
    if (search->wrong_post)
        return asm_fail(search->ctx, search->text, at, "%s: operand %u: expected %s (as in %s)",
                        form->mnemonic, best + 1, posts[match_post(form, best)], form->syntax);
    if (list[0] == '\0')
        return asm_fail(search->ctx, search->text, at, "%s: expected %u operands, found %u",
                        form->mnemonic, best, written->count);
    const char *csr = best < written->count && written->operands[best].file == 0 &&
                              written->operands[best].expr->csr != NULL
                          ? written->operands[best].expr->csr->name
                          : NULL;
    if (csr != NULL)
        return asm_fail(search->ctx, search->text, at,
                        "%s: operand %u: this instruction does not reach the CSR $%s",
                        form->mnemonic, best + 1, csr);
    return asm_fail(search->ctx, search->text, at, "%s: operand %u: expected %s", form->mnemonic,
                    best + 1, list);
}

static int check_mode(struct asm_context *ctx, const struct asm_inst *inst, uint32_t at)
{
    const struct isa_form *form = &isa_forms[inst->isa.form];
    bool worker = form->contexts == ISA_CONTEXTS_WORKER && ctx->mode == ASM_MODE_SUPERVISOR;
    bool supervisor = form->contexts == ISA_CONTEXTS_SUPERVISOR && ctx->mode == ASM_MODE_WORKER;
    if (ctx->flags.loose_mode || (!worker && !supervisor))
        return 0;
    return asm_fail(ctx, inst->text, at, "%s: instruction requires: %s mode", form->mnemonic,
                    worker ? "Worker" : "Supervisor");
}

/* Two results in the same register of one instruction have no meaning. */
static int check_writes(struct asm_context *ctx, const struct asm_inst *inst, uint32_t at)
{
    const struct isa_form *form = &isa_forms[inst->isa.form];
    uint32_t seen[2] = {0, 0};
    for (unsigned i = 0; i < form->operand_count; i++) {
        const struct isa_operand *operand = &form->operands[i];
        if (operand->kind >= ISA_KIND_FIRST_IMMEDIATE || operand->access < ISA_ACCESS_W)
            continue;
        bool m = operand->kind == ISA_KIND_MR || operand->kind == ISA_KIND_MR_PAIR;
        unsigned count = operand->kind == ISA_KIND_AR_QUAD ? 4
                         : operand->kind == ISA_KIND_AR_PAIR || operand->kind == ISA_KIND_MR_PAIR
                             ? 2
                             : 1;
        uint32_t bits = ((1u << count) - 1) << inst->isa.operand[i];
        if (m)
            bits &= 0x7fff;
        if ((seen[m] & bits) != 0 && !ctx->flags.loose_operands)
            return asm_fail(ctx, inst->text, at, "%s: two results go to the same register",
                            form->mnemonic);
        seen[m] |= bits;
    }
    return 0;
}

int match_form(struct asm_context *ctx, struct asm_text *text, const struct asm_written *written,
               struct asm_inst *inst)
{
    struct search search = {.ctx = ctx, .text = text, .written = written};
    search.first = search.end = isa_find_mnemonic(written->mnemonic);
    if (search.first == ISA_COUNT)
        return asm_fail(ctx, text, written->at, "unknown instruction '%s'", written->mnemonic);
    while (search.end < ISA_COUNT && strcmp(isa_forms[search.end].mnemonic, written->mnemonic) == 0)
        search.end++;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned id = search.first; id < search.end; id++) {
            const struct isa_form *form = &isa_forms[id];
            bool upper = form->operands[form->operand_count - 1].kind == ISA_KIND_UPPR;
            if (upper != (pass == 1) || !try_form(&search, id, inst))
                continue;
            int code = check_mode(ctx, inst, written->at);
            return code != 0 ? code : check_writes(ctx, inst, written->at);
        }
    }
    return report(&search);
}
