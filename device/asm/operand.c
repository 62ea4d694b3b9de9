/* Operands: registers with their ranges and suffixes, and immediates.
 *
 * `$m4`, `$m4:5`, `$a0:3`, `$ap2`, `$aq1`, `$azeros`, `$a3:BL`, `$m2:3+=`, `$m1++`, `$m1>>`,
 * `$m1@`. Any other `$NAME` is the number of a control register. Fails on ranges that no
 * instruction has.
 */
#include "device/asm/passes.h"

#include <stdio.h>
#include <string.h>

struct named_register {
    const char *name;
    char file;
    uint8_t first, count;
};

static const struct named_register named_registers[] = {{"bp", 'm', 8, 1},
                                                        {"fp", 'm', 9, 1},
                                                        {"lr", 'm', 10, 1},
                                                        {"sp", 'm', 11, 1},
                                                        {"mworker_base", 'm', 12, 1},
                                                        {"mvertex_base", 'm', 13, 1},
                                                        {"mzero", 'm', 15, 1},
                                                        {"azero", 'a', 15, 1},
                                                        {"azeros", 'a', 14, 2}};

static size_t decimal(const char *text, size_t length, unsigned *value)
{
    size_t n = 0;
    *value = 0;
    while (n < length && n < 3 && text[n] >= '0' && text[n] <= '9')
        *value = *value * 10 + (unsigned)(text[n++] - '0');
    return n;
}

/* Fills file, first and count from a name; false when it is not a register. */
static bool register_name(const char *name, size_t length, struct asm_operand *operand)
{
    for (size_t i = 0; i < sizeof(named_registers) / sizeof(named_registers[0]); i++) {
        const struct named_register *known = &named_registers[i];
        if (strlen(known->name) == length && memcmp(known->name, name, length) == 0) {
            operand->file = known->file;
            operand->first = known->first;
            operand->count = known->count;
            return true;
        }
    }
    if (length < 2 || (name[0] != 'm' && name[0] != 'a'))
        return false;
    unsigned number, width = 1;
    size_t at = 1;
    if (name[1] == 'p')
        width = 2, at = 2;
    else if (name[1] == 'q' && name[0] == 'a')
        width = 4, at = 2;
    if (at == length || decimal(name + at, length - at, &number) != length - at || number > 15)
        return false;
    /* Pair and quad numbers beyond the file mean the zero registers (facts/asm_dialect.md 2). */
    if (number * width > 15)
        number = 16 / width - 1;
    operand->file = name[0];
    operand->first = (uint8_t)(number * width);
    operand->count = (uint8_t)width;
    return true;
}

/* `:1` of a range, `:BL`, `:BU`, `:B`. */
static int register_range(struct asm_cursor *cursor, struct asm_operand *operand)
{
    const char *data = cursor->text->data + cursor->at;
    size_t length = 0;
    unsigned last;
    while (asm_identifier_char(data[length]))
        length++;
    size_t digits = decimal(data, length, &last);
    if (operand->count == 1 && digits != 0 && digits == length) {
        unsigned first = operand->first, count = last - first + 1;
        /* ld64a32's destination may be written without the untouched element: $a1:3. */
        bool upper = operand->file == 'a' && last <= 15 && count == 3 && first % 4 == 1;
        if (upper)
            first--, count++;
        if (last > 15 || last < first || (count != 2 && count != 4) || first % count != 0 ||
            (count == 4 && operand->file == 'm'))
            return asm_fail(cursor->ctx, cursor->text, operand->at,
                            "$%c%u:%.*s is not a register pair or quad", operand->file,
                            operand->first, (int)length, data);
        operand->first = (uint8_t)first;
        operand->count = (uint8_t)count;
    } else if (operand->count == 1 && length == 1 && data[0] == 'B') {
        operand->broadcast = ASM_BROADCAST_B;
    } else if (operand->count == 1 && length == 2 && memcmp(data, "BL", 2) == 0) {
        operand->broadcast = ASM_BROADCAST_BL;
    } else if (operand->count == 1 && length == 2 && memcmp(data, "BU", 2) == 0) {
        operand->broadcast = ASM_BROADCAST_BU;
    } else {
        return asm_fail(cursor->ctx, cursor->text, cursor->at,
                        "expected a register number, B, BL or BU after the colon");
    }
    cursor->at += length;
    return 0;
}

static void register_post(struct asm_cursor *cursor, struct asm_operand *operand)
{
    static const struct {
        const char *text;
        enum asm_post post;
    } posts[] = {{"+=", ASM_POST_ADD},
                 {"++", ASM_POST_INCREMENT},
                 {">>", ASM_POST_SHIFT},
                 {"@", ASM_POST_AT}};
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        if (cursor_accept(cursor, posts[i].text)) {
            operand->post = posts[i].post;
            return;
        }
    }
}

int operand_parse(struct asm_cursor *cursor, struct asm_operand *operand)
{
    char c = cursor_peek(cursor);
    *operand = (struct asm_operand){.at = (uint32_t)cursor->at};
    const char *name = cursor->text->data + cursor->at + 1;
    size_t length = 0;
    while (c == '$' && asm_identifier_char(name[length]))
        length++;
    if (c != '$' || !register_name(name, length, operand))
        return expr_parse(cursor, &operand->expr);
    cursor->at += length + 1;
    int code = 0;
    if (cursor->text->data[cursor->at] == ':') {
        cursor->at++;
        code = register_range(cursor, operand);
    }
    register_post(cursor, operand);
    return code;
}

const char *operand_describe(const struct isa_operand *operand, char *text, size_t size)
{
    long long limit = 1ll << operand->width;
    switch (operand->kind) {
    case ISA_KIND_MR:
        return "a register $m0..$m15";
    case ISA_KIND_MR_PAIR:
        return "a register pair $m0:1..$m14:15";
    case ISA_KIND_AR:
        return "a register $a0..$a15";
    case ISA_KIND_AR_BL:
        return "a register $a with :BL";
    case ISA_KIND_AR_BU:
        return "a register $a with :BU";
    case ISA_KIND_AR_B:
        return "a register $a with :B";
    case ISA_KIND_AR_PAIR:
        return "a register pair $a0:1..$a14:15";
    case ISA_KIND_AR_QUAD:
        return "a register quad $a0:3..$a12:15";
    case ISA_KIND_SIMM:
        snprintf(text, size, "a number %lld..%lld", -limit / 2, limit / 2 - 1);
        return text;
    case ISA_KIND_UPPR:
        return "a multiple of 0x100000";
    case ISA_KIND_WADDR:
        if (operand->width >= 19)
            snprintf(text, size, "an address 0..0x%llx, a multiple of 4", limit * 4 - 4);
        else
            snprintf(text, size, "a word address 0..0x%llx", limit - 1);
        return text;
    default:
        snprintf(text, size, "a number 0..%lld", limit - 1);
        return text;
    }
}
