/* Programs of the self-test that check themselves: see selftest_programs.h.
 *
 * Expected words are data segments. Exchange words come from device/ipu21/exchange.h.
 */
#include "device/driver/selftest_programs.h"

#include "base/half.h"
#include "device/driver/selftest_build.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/flags.h"
#include "device/ipu21/topology.h"
#include "device/kernels/kernels.h"

enum { WORDS = 32 /* that the pair exchanges */ };

/* --- load --- */

static const char LOAD_TEXT[] = SELFTEST_HEAD "#if ROLE\n"
                                              "    setzi $m0, 0xbeef\n"
                                              "    setzi $m1, 0x600d\n"
                                              "    shl $m1, $m1, 16\n"
                                              "    or $m0, $m0, $m1\n"
                                              "    setzi $m1, RESULT\n"
                                              "    st32 $m0, $m1, $mzero, 0\n"
                                              "#endif\n" SELFTEST_TAIL;

int selftest_program_load(uint32_t flag_set, struct package **out, struct ipu_error *error)
{
    uint8_t roles[IPU21_TILES] = {1};
    struct selftest_build b;
    int code = selftest_begin(&b, "load", flag_set, error);
    if (code == 0)
        code = selftest_make_roles(&b, LOAD_TEXT, 2, NULL);
    if (code == 0)
        selftest_place(&b, roles);
    return selftest_finish(&b, code, out);
}

/* --- exchange --- */

/* The first tile sends to the second, which compares and sends back what it got. Every row begins
 * in the slot after its sync, at a multiple of 8; its words are defined for each role. */
static const char EXCHANGE_TEXT[] = SELFTEST_HEAD "    setzi $m0, 1\n"
                                                  "    put $INCOMING_DCOUNT, $m0\n"
                                                  "    .align 8\n"
                                                  "    nop\n"
                                                  "    sync 3\n"
                                                  "#if ROLE == 1\n"
                                                  "    .long SEND0, SEND1\n"
                                                  "#elif ROLE == 2\n"
                                                  "    .globl row\n"
                                                  "row:\n"
                                                  "    .long TAKE0, TAKE1, TAKE2, TAKE3\n"
                                                  "    .globl row_end\n"
                                                  "row_end:\n"
                                                  "    compare WORDS, TARGET, EXPECTED\n"
                                                  "#endif\n"
                                                  "    .align 8\n"
                                                  "    nop\n"
                                                  "    sync 3\n"
                                                  "#if ROLE == 2\n"
                                                  "    .long SEND0, SEND1\n"
                                                  "#elif ROLE == 1\n"
                                                  "    .globl row\n"
                                                  "row:\n"
                                                  "    .long TAKE0, TAKE1, TAKE2, TAKE3\n"
                                                  "    .globl row_end\n"
                                                  "row_end:\n"
                                                  "    compare WORDS, TARGET, SOURCE\n"
                                                  "#endif\n" SELFTEST_TAIL;

/* facts/exchange.md section 4: both rows of one transfer of at most 51 words; the sender starts
 * late enough that the receiver's controls fall into slots of the phase. */
static void define_transfer(struct selftest_defines *sender, struct selftest_defines *receiver,
                            unsigned from, unsigned to, uint32_t address)
{
    unsigned source = ipu21_physical(from), target = ipu21_physical(to);
    uint32_t delay = (uint32_t)(112 - ipu21_ttm(source, target));
    selftest_define(sender, "SEND0", ipu21_delay(delay));
    selftest_define(sender, "SEND1",
                    ipu21_send(WORDS, address / 4, ipu21_direction(source, target)));
    selftest_define(receiver, "TAKE0", ipu21_delayxpic(113, 0, source));
    selftest_define(receiver, "TAKE1", ipu21_delayxpic(WORDS, 0, IPU21_MUX_NEUTRAL));
    selftest_define(
        receiver, "TAKE2",
        ipu21_delaypic(52 - WORDS + 2 * ipu21_row(target), 0, (uint32_t)SELFTEST_TARGET / 4));
    selftest_define(receiver, "TAKE3", ipu21_delay(WORDS + IPU21_RECEIVE_GUARD));
}

static void add_pair(struct selftest_build *b, unsigned tile, unsigned role, uint32_t address,
                     const uint32_t *words)
{
    selftest_add_data(b, tile, address, words, 4 * WORDS);
    package_add_row(b->package, tile, b->rows[role][0], b->rows[role][1] - b->rows[role][0], WORDS);
}

int selftest_program_exchange(uint32_t flag_set, struct package **out, struct ipu_error *error)
{
    uint8_t roles[IPU21_TILES] = {0};
    uint32_t words[WORDS];
    struct selftest_defines extra[3] = {{.count = 0}};
    struct selftest_build b;
    roles[SELFTEST_FIRST] = 1;
    roles[SELFTEST_SECOND] = 2;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = (i + 1) * UINT32_C(0x9e3779b9);
    define_transfer(&extra[1], &extra[2], SELFTEST_FIRST, SELFTEST_SECOND, SELFTEST_SOURCE);
    define_transfer(&extra[2], &extra[1], SELFTEST_SECOND, SELFTEST_FIRST, SELFTEST_TARGET);
    for (unsigned role = 1; role < 3; role++)
        selftest_define(&extra[role], "WORDS", WORDS);
    int code = selftest_begin(&b, "exchange", flag_set, error);
    if (code == 0)
        code = selftest_make_roles(&b, EXCHANGE_TEXT, 3, extra);
    if (code == 0) {
        selftest_place(&b, roles);
        add_pair(&b, SELFTEST_FIRST, 1, SELFTEST_SOURCE, words);
        add_pair(&b, SELFTEST_SECOND, 2, SELFTEST_EXPECTED, words);
    }
    return selftest_finish(&b, code, out);
}

/* --- kernel --- */

enum {
    K = 64,
    C = 16,
    R = 2,
    ELEMENTS = R * C,
    WEIGHTS = 0x80000,
    PRODUCT = 0xc8000,
    BLOCK = 0x58020 /* argument block */
};

static const char KERNEL_TEXT[] = SELFTEST_HEAD "#if ROLE\n"
                                                "    setzi $m0, BLOCK\n"
                                                "    call $m10, KERNEL\n"
                                                "    compare WORDS, PRODUCT, EXPECTED\n"
                                                "#endif\n" SELFTEST_TAIL;

static int left(unsigned row, unsigned k)
{
    return (int)((row * 5 + k * 3) % 7) - 3;
}

static int right(unsigned k, unsigned column)
{
    return (int)((k * 11 + column * 2) % 5) - 2;
}

static uint16_t half_of(int value)
{
    return half_from_float((float)value);
}

/* Small integers: every partial sum is exact in f16, so there is one right answer. */
static void add_gemm(struct selftest_build *b)
{
    uint16_t x[R * K], w[K * C], product[ELEMENTS];
    for (unsigned k = 0; k < K; k++) {
        for (unsigned r = 0; r < R; r++)
            x[(k / 16 * R + r) * 16 + k % 16] = half_of(left(r, k));
        for (unsigned c = 0; c < C; c++)
            w[k / 16 * 256 + kernel_weight_slot(k % 16, c)] = half_of(right(k, c));
    }
    for (unsigned r = 0; r < R; r++)
        for (unsigned c = 0; c < C; c++) {
            int sum = 0;
            for (unsigned k = 0; k < K; k++)
                sum += left(r, k) * right(k, c);
            product[r * C + c] = half_of(sum);
        }
    selftest_add_data(b, 0, SELFTEST_SOURCE, x, sizeof x);
    selftest_add_data(b, 0, WEIGHTS, w, sizeof w);
    selftest_add_data(b, 0, SELFTEST_EXPECTED, product, sizeof product);
}

static void add_sum(struct selftest_build *b)
{
    uint16_t x[ELEMENTS], w[ELEMENTS], sum[ELEMENTS];
    for (unsigned i = 0; i < ELEMENTS; i++) {
        x[i] = half_of(left(i, i));
        w[i] = half_of(100 * right(i, i));
        sum[i] = half_of(left(i, i) + 100 * right(i, i));
    }
    selftest_add_data(b, 0, SELFTEST_SOURCE, x, sizeof x);
    selftest_add_data(b, 0, WEIGHTS, w, sizeof w);
    selftest_add_data(b, 0, SELFTEST_EXPECTED, sum, sizeof sum);
}

static int add_kernel(struct selftest_build *b, bool amp)
{
    static const struct kernel_spec gemm = {KERNEL_GEMM_F16, {1, K, C, R, R}};
    static const struct kernel_spec add = {KERNEL_ADD_F16, {0}};
    static const uint32_t gemm_args[KERNEL_MAX_ARGS] = {SELFTEST_SOURCE, WEIGHTS, PRODUCT, R,
                                                        R * 32,          R * 32};
    static const uint32_t add_args[KERNEL_MAX_ARGS] = {SELFTEST_SOURCE, WEIGHTS, PRODUCT, ELEMENTS};
    const struct kernel_spec *spec = amp ? &gemm : &add;
    uint32_t block[KERNEL_MAX_BLOCK];
    char name[KERNEL_NAME_BYTES];
    struct selftest_defines extra[2] = {{.count = 0}};
    kernel_name(spec, name);
    selftest_define(&extra[1], "BLOCK", BLOCK);
    selftest_define(&extra[1], "PRODUCT", PRODUCT);
    selftest_define(&extra[1], "WORDS", ELEMENTS / 2);
    extra[1].list[extra[1].count++] = (struct asm_define){"KERNEL", name};
    int code = kernel_assemble(spec, &b->kernel, b->error);
    if (code == 0)
        code = selftest_make_roles(b, KERNEL_TEXT, 2, extra);
    if (code != 0)
        return code;
    if (!kernel_block(spec, amp ? gemm_args : add_args, block))
        return ipu_error_set(b->error, IPU_ERR_INTERNAL, "kernel %s refuses its arguments", name);
    selftest_add_data(b, 0, BLOCK, block, 4 * kernel_block_words(spec->family));
    (amp ? add_gemm : add_sum)(b);
    return 0;
}

int selftest_program_kernel(uint32_t flag_set, struct package **out, bool *amp,
                            struct ipu_error *error)
{
    uint8_t roles[IPU21_TILES] = {1};
    struct selftest_build b;
    int code = selftest_begin(&b, "kernel", flag_set, error);
    *amp = flag_set == IPU21_FLAG_SET;
    if (code == 0)
        code = add_kernel(&b, *amp);
    if (code == 0)
        selftest_place(&b, roles);
    return selftest_finish(&b, code, out);
}
