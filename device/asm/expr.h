/* Private: operators of assembler expressions, shared by the parser (expr.c) and eval.c. */
#ifndef IPU_ASM_EXPR_H
#define IPU_ASM_EXPR_H

#include "device/asm/passes.h"

enum asm_op {
    OP_PLUS,
    OP_NEGATE,
    OP_COMPLEMENT,
    OP_NOT,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_REMAINDER,
    OP_SHIFT_LEFT,
    OP_SHIFT_RIGHT,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_AND_ALSO,
    OP_OR_ELSE
};

#endif
