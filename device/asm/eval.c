/* Values of expressions: constant + symbol - symbol.
 *
 * A difference of two labels of one section is a constant at once, because every size is final when
 * it is emitted. Other operators need constants. A `.set` that refers to itself has no value.
 */
#include "device/asm/expr.h"

enum { MAX_DEPTH = 4096 };

static bool evaluate(struct asm_context *ctx, const struct asm_expr *expr, unsigned depth,
                     struct asm_value *value);

/* Cancels plus against minus when both are known to be in one section. */
static void fold(struct asm_value *value)
{
    const struct asm_name *plus = value->plus, *minus = value->minus;
    if (plus == NULL || minus == NULL)
        return;
    bool labels = plus->kind == ASM_SYMBOL_LABEL && minus->kind == ASM_SYMBOL_LABEL;
    if (plus != minus && !(labels && plus->section == minus->section))
        return;
    value->constant += (int64_t)plus->offset - (int64_t)minus->offset;
    value->plus = value->minus = NULL;
}

static bool symbol_value(struct asm_context *ctx, struct asm_name *symbol, unsigned depth,
                         struct asm_value *value)
{
    *value = (struct asm_value){0};
    if (symbol->kind != ASM_SYMBOL_VALUE) {
        value->plus = symbol;
        return true;
    }
    if (symbol->visiting != 0)
        return false;
    symbol->visiting = 1;
    bool ok = evaluate(ctx, symbol->value, depth + 1, value);
    symbol->visiting = 0;
    return ok;
}

/* a + b, or a - b when `negate`. False when two symbols would have the same sign. */
static bool combine(const struct asm_value *a, const struct asm_value *b, bool negate,
                    struct asm_value *out)
{
    const struct asm_name *b_plus = negate ? b->minus : b->plus;
    const struct asm_name *b_minus = negate ? b->plus : b->minus;
    uint64_t constant = (uint64_t)b->constant;
    *out = *a;
    out->constant = (int64_t)((uint64_t)a->constant + (negate ? 0 - constant : constant));
    if (a->reloc == 0)
        out->reloc = b->reloc;
    if (b_plus != NULL && out->minus == b_plus)
        out->minus = NULL;
    else if (b_plus != NULL && out->plus == NULL)
        out->plus = b_plus;
    else if (b_plus != NULL)
        return false;
    if (b_minus != NULL && out->plus == b_minus)
        out->plus = NULL;
    else if (b_minus != NULL && out->minus == NULL)
        out->minus = b_minus;
    else if (b_minus != NULL)
        return false;
    fold(out);
    return true;
}

static bool divide(uint8_t op, int64_t a, int64_t b, int64_t *out)
{
    if (b == 0)
        return false;
    if (b == -1)
        *out = op == OP_DIVIDE ? (int64_t)(0 - (uint64_t)a) : 0;
    else
        *out = op == OP_DIVIDE ? a / b : a % b;
    return true;
}

static bool apply(uint8_t op, int64_t a, int64_t b, int64_t *out)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case OP_MULTIPLY:
        *out = (int64_t)(ua * ub);
        return true;
    case OP_SHIFT_LEFT:
        *out = ub < 64 ? (int64_t)(ua << ub) : 0;
        return true;
    case OP_SHIFT_RIGHT:
        *out = ub < 64 ? (int64_t)(ua >> ub) : 0;
        return true;
    case OP_AND:
        *out = a & b;
        return true;
    case OP_OR:
        *out = a | b;
        return true;
    case OP_XOR:
        *out = a ^ b;
        return true;
    case OP_EQUAL:
        *out = a == b;
        return true;
    case OP_NOT_EQUAL:
        *out = a != b;
        return true;
    case OP_LESS:
        *out = a < b;
        return true;
    case OP_LESS_EQUAL:
        *out = a <= b;
        return true;
    case OP_GREATER:
        *out = a > b;
        return true;
    case OP_GREATER_EQUAL:
        *out = a >= b;
        return true;
    case OP_AND_ALSO:
        *out = a != 0 && b != 0;
        return true;
    case OP_OR_ELSE:
        *out = a != 0 || b != 0;
        return true;
    default:
        return divide(op, a, b, out);
    }
}

static bool binary(struct asm_context *ctx, const struct asm_expr *expr, unsigned depth,
                   struct asm_value *value)
{
    struct asm_value a, b;
    if (!evaluate(ctx, expr->left, depth + 1, &a) || !evaluate(ctx, expr->right, depth + 1, &b))
        return false;
    if (expr->op == OP_ADD || expr->op == OP_SUBTRACT)
        return combine(&a, &b, expr->op == OP_SUBTRACT, value);
    if (a.plus != NULL || a.minus != NULL || b.plus != NULL || b.minus != NULL)
        return false;
    *value = (struct asm_value){0};
    return apply(expr->op, a.constant, b.constant, &value->constant);
}

static bool unary(struct asm_context *ctx, const struct asm_expr *expr, unsigned depth,
                  struct asm_value *value)
{
    struct asm_value operand, zero = {0};
    if (!evaluate(ctx, expr->left, depth + 1, &operand))
        return false;
    bool constant = operand.plus == NULL && operand.minus == NULL;
    *value = operand;
    switch (expr->op) {
    case OP_NEGATE:
        return combine(&zero, &operand, true, value);
    case OP_COMPLEMENT:
        value->constant = ~operand.constant;
        return constant;
    case OP_NOT:
        value->constant = operand.constant == 0;
        return constant;
    default:
        if (expr->reloc != 0)
            value->reloc = expr->reloc;
        return true;
    }
}

static bool evaluate(struct asm_context *ctx, const struct asm_expr *expr, unsigned depth,
                     struct asm_value *value)
{
    *value = (struct asm_value){0};
    if (depth > MAX_DEPTH)
        return false;
    switch (expr->kind) {
    case ASM_EXPR_NUMBER:
        value->constant = expr->number;
        return true;
    case ASM_EXPR_SYMBOL:
        return symbol_value(ctx, expr->symbol, depth, value);
    case ASM_EXPR_UNARY:
        return unary(ctx, expr, depth, value);
    default:
        return binary(ctx, expr, depth, value);
    }
}

bool expr_evaluate(struct asm_context *ctx, const struct asm_expr *expr, struct asm_value *value)
{
    return evaluate(ctx, expr, 0, value);
}

bool expr_constant(struct asm_context *ctx, const struct asm_expr *expr, int64_t *value)
{
    struct asm_value result;
    if (!evaluate(ctx, expr, 0, &result) || result.plus != NULL || result.minus != NULL)
        return false;
    *value = result.constant;
    return true;
}
