/* module: device/sim */
/* Every path of the simulator (enum sim_path) computes the same: programs made at random run on two
 * tiles, one of which executes one instruction at a time, and all that a program or its user can
 * see is compared. The seed is the number of the round, which a failure prints. */
#include "device/sim/chip.h"
#include "device/sim/core.h"
#include "tests/unit/sim_program.h"

#include <math.h>

static struct program plain, other;
static struct sim_code *code[3];
static uint32_t state;

static void setup(void)
{
    program_open(&plain);
    program_open(&other);
    for (int path = 0; path < 3; path++)
        code[path] = sim_code_create((enum sim_path)path);
    sim_tile_share(plain.tile, code[SIM_PATH_PLAIN]);
}

static void teardown(void)
{
    program_close(&plain);
    program_close(&other);
    for (int path = 0; path < 3; path++)
        sim_code_destroy(code[path]);
}

static uint32_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static uint32_t below(uint32_t count)
{
    return random_word() % count;
}

/* --- comparing --- */

static bool same_bits_or_nan(const float *x, const float *y, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (sim_bits(x[i]) != sim_bits(y[i]) && !(isnan(x[i]) && isnan(y[i])))
            return false;
    return true;
}

static void compare_context(const struct sim_context *x, const struct sim_context *y, int round)
{
    unsigned n = x->number;
    ck_assert_msg(memcmp(x->m, y->m, 16 * 4) == 0, "round %d: $m of context %u", round, n);
    ck_assert_msg(memcmp(x->a, y->a, 16 * 4) == 0, "round %d: $a of context %u", round, n);
    ck_assert_msg(same_bits_or_nan(&x->acc.even[0][0], &y->acc.even[0][0], 32),
                  "round %d: accumulators of context %u", round, n);
    ck_assert_msg(x->cycle == y->cycle && x->pc == y->pc && x->bundles == y->bundles,
                  "round %d: context %u stands at 0x%x, cycle %llu, bundle %llu, not 0x%x, %llu, "
                  "%llu",
                  round, n, y->pc, (unsigned long long)y->cycle, (unsigned long long)y->bundles,
                  x->pc, (unsigned long long)x->cycle, (unsigned long long)x->bundles);
    ck_assert_msg(x->active == y->active && x->repeat_end == y->repeat_end &&
                      x->repeat_left == y->repeat_left && x->fp_sts == y->fp_sts &&
                      x->tas == y->tas,
                  "round %d: repeat or status of context %u", round, n);
}

static void compare_faults(int round)
{
    const struct sim_fault *x = sim_tile_fault(plain.tile), *y = sim_tile_fault(other.tile);
    ck_assert_msg(!x == !y, "round %d: only one faults: %s", round, x ? x->text : y->text);
    if (x)
        ck_assert_str_eq(x->text, y->text);
}

/* `check` writes a line for each assertion, so this one is made only when it fails. */
static void compare_memory(int round)
{
    for (size_t i = 0; i < IPU21_SRAM_BYTES; i += 4096)
        if (memcmp(plain.sram + i, other.sram + i, 4096) != 0)
            ck_abort_msg("round %d: memory at 0x%zx or after", round, i + IPU21_SRAM_BASE);
}

/* --- programs --- */

static void emit(struct isa_inst main_half, struct isa_inst aux_half)
{
    put_bundle(&plain, main_half, aux_half);
}

static int even(uint32_t count)
{
    return (int)(2 * below(count));
}

static struct isa_inst random_amp(void)
{
    /* Results may be dropped; three in four use the phases of eight units. */
    int flags = below(16) == 0 ? (int)below(64) : (int)below(4);
    return I(F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4 + even(2), even(8), even(8), flags);
}

static int random_pace(unsigned bits)
{
    return below(3) == 0 ? (int)below(1u << bits) : 0;
}

/* The other half of a bundle: mostly what kernels of matrix products use. */
static struct isa_inst random_access_half(void)
{
    int pair = below(8) == 0 ? 4 : 2, stride = below(6) == 0 ? 15 : 6;
    switch (below(9)) {
    case 0:
    case 1:
    case 2:
        return I(LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6, below(8) == 0 ? 12 : 0, even(8), pair,
                 stride, random_pace(6));
    case 3:
        return I(LDST64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, even(2), even(8), pair, stride,
                 random_pace(4));
    case 4:
        return I(LD2X64PACE_ARPAIR_ARPAIR_MRPAIR_MR_PACE4, 0, below(3) == 0 ? 14 : 2, pair, stride,
                 random_pace(4));
    case 5:
        return I(ST64PACE_ARPAIR_MRPAIR_MR_PACE2IN8, even(8), pair, stride, random_pace(2));
    case 6:
        return I(LD64_ARPAIR_MR_MR_ZIMM12, even(2), 8 + (int)below(2), 15, (int)below(60));
    case 7:
        return I(ST64_ARPAIR_MR_MR_ZIMM12, even(8), 8 + (int)below(2), 15, (int)below(60));
    default:
        return I(SETZI_MR_ZIMM20, 7, (int)below(1000));
    }
}

static bool writes_same(const struct isa_inst *access, const struct isa_inst *amp)
{
    int first = access->operand[0], result = amp->operand[0];
    (void)result;
    return isa_forms[access->form].operands[0].kind != ISA_KIND_MR && first >= 4 && first < 8;
}

static void random_bundle(void)
{
    struct isa_inst access = random_access_half(), amp = random_amp();
    if (below(10) == 0)
        emit(access, I(SETZI_AR_ZIMM20, 15, 0));
    else if (!writes_same(&access, &amp))
        emit(access, amp);
    else
        emit(access, I(SETZI_AR_ZIMM20, 15, 0));
}

static int random_step(void)
{
    return below(2) == 0 ? 1 : (int)below(7) - 3;
}

/* A repeat that copies or fills, or nearly. */
static void random_move(void)
{
    int base = below(3) == 0 ? 7 : 15, from = below(8) == 0 ? 11 : 10, data = even(7);
    struct isa_inst nop = I(SETZI_AR_ZIMM20, below(2) == 0 ? 13 : 15, 0);
    struct isa_inst beside = I(SETZI_AR_ZIMM20, (int)below(16), (int)below(100));
    bool copies = below(3) != 0;
    align8(&plain);
    emit(I(RPT_ZIMM12_ZIMM8, (int)below(40), copies), nop);
    if (copies)
        emit(I(LD64STEP_ARPAIR_MR_MR_SIMM8, data, base, from, random_step()), nop);
    emit(I(ST64STEP_ARPAIR_MR_MR_SIMM8, below(8) == 0 ? 0 : data, base, 11, random_step()), beside);
}

static void random_moves(void)
{
    for (unsigned n = 1 + below(4); n > 0; n--)
        random_move();
}

/* A lone AMP now and then, a repeat of one to six bundles, or a straight line. */
static void random_stream(void)
{
    for (unsigned n = 1 + below(5); n > 0; n--) {
        unsigned bundles = 1 + below(6);
        if (below(2) == 0) {
            align8(&plain);
            emit(I(RPT_ZIMM12_ZIMM8, (int)below(40), (int)bundles - 1), I(SETZI_AR_ZIMM20, 15, 0));
        } else if (below(3) == 0) {
            put(&plain, random_amp());
        }
        for (unsigned i = 0; i < bundles; i++)
            random_bundle();
    }
}

/* f16 numbers that keep sums in range, and now and then some that do not. */
static uint32_t random_halves(bool wild)
{
    static const uint32_t odd_ones[] = {0x7c00fc00, 0x7e007bff, 0x80000001, 0x7bff7bff};
    if (wild && below(40) == 0)
        return odd_ones[below(4)];
    return random_word() & 0xbbffbbff;
}

static void random_memory(bool wild)
{
    for (uint32_t at = DATA; at < DATA + 0x2000; at += 4)
        poke32(&plain, at, random_halves(wild));
    for (uint32_t at = WIDE; at < WIDE + 0x10000; at += 4)
        poke32(&plain, at, random_halves(wild));
}

/* An address: mostly well inside, sometimes close to a border, misaligned, or in code. */
static uint32_t random_address(bool odd)
{
    static const uint32_t places[] = {DATA, WIDE, WIDE + 0x8000, WIDE + 0x800c, WIDE + 8};
    uint32_t address = places[below(5)] + 8 * below(64);
    if (!odd || below(4) != 0)
        return address & ~7u;
    static const uint32_t borders[] = {0x7ff80, 0xe7f80, CODE, 0x4c000, WIDE + 0x7f80};
    return borders[below(5)] + 8 * below(16) + (below(4) == 0 ? 4 : 0);
}

static void set_pair(unsigned m, const uint32_t address[3])
{
    uint32_t low = 0, high = random_word() & 0x80000000u;
    low = address[0] | address[2] << 21;
    high |= address[1] | (address[2] >> 11 & 0x3ff) << 21;
    set_m(&plain, m, low);
    set_m(&plain, m + 1, high);
}

static void random_pointers(bool odd)
{
    for (unsigned m = 2; m < 6; m += 2) {
        uint32_t address[3];
        for (int i = 0; i < 3; i++)
            address[i] = random_address(odd);
        set_pair(m, address);
    }
    set_m(&plain, 6, below(2) == 0 ? 0x00300c01 : random_word() & 0x00f03c0f);
    set_m(&plain, 8, random_address(odd));
    set_m(&plain, 9, random_address(odd));
    set_m(&plain, 7, 8 * below(4));
    set_m(&plain, 10, random_address(odd));
    set_m(&plain, 11, below(2) == 0 ? m_reg(&plain, 10) + 8 * below(6) : random_address(odd));
}

static void random_worker(bool wild)
{
    static const uint32_t controls[] = {0, 0, 0, SIM_FP_ESR, SIM_FP_OFLO, SIM_FP_NANOO};
    for (unsigned i = 0; i < 14; i++)
        set_a(&plain, i, random_halves(wild));
    for (unsigned i = 0; i < 32; i++)
        (&plain.tile->context[1].acc.even[0][0])[i] = (float)(int32_t)random_word() * 0x1p-26f;
    for (unsigned i = 0; i < SIM_CWEI_SLOTS; i++)
        plain.tile->cwei[i] = (uint64_t)random_halves(wild) << 32 | random_halves(wild);
    plain.tile->f16_valid = false;
    plain.tile->csr[0x20] = controls[below(6)];
}

/* Gives the other tile all that the plain one has. */
static void copy_tile(enum sim_path path)
{
    sim_tile_share(other.tile, code[path]);
    for (size_t i = 0; i < IPU21_SRAM_BYTES; i += 4096)
        if (memcmp(other.sram + i, plain.sram + i, 4096) != 0)
            memcpy(other.sram + i, plain.sram + i, 4096);
    for (unsigned i = 0; i < 7; i++) {
        struct sim_context *c = &other.tile->context[i];
        *c = plain.tile->context[i];
        c->tile = other.tile;
        c->sram = other.sram;
    }
    memcpy(other.tile->cwei, plain.tile->cwei, sizeof plain.tile->cwei);
    memcpy(other.tile->csr, plain.tile->csr, sizeof plain.tile->csr);
    other.tile->f16_valid = false;
}

static void begin(int round)
{
    state = 2463534242u ^ (uint32_t)round * 0x9e3779b9u;
    sim_tile_reset(plain.tile, CODE, 0);
    sim_tile_reset(other.tile, CODE, 0);
    plain.tile->context[0].active = false;
    plain.at = CODE;
}

/* Runs both, the other one in slices, and compares. */
static void run_both(int round, uint64_t slice)
{
    enum sim_stop stop = SIM_STOP_LIMIT, stop_plain = sim_tile_run(plain.tile, 60000);
    for (uint64_t at = slice; stop == SIM_STOP_LIMIT && at < 60000; at += slice)
        stop = sim_tile_run(other.tile, at);
    if (stop == SIM_STOP_LIMIT)
        stop = sim_tile_run(other.tile, 60000);
    ck_assert_int_eq((int)stop, (int)stop_plain);
    compare_faults(round);
    for (unsigned i = 0; i < 7; i++)
        compare_context(&plain.tile->context[i], &other.tile->context[i], round);
    compare_memory(round);
}

/* One worker, so that contexts are the same after a fault too. */
static void stream_round(int round, bool odd, bool wild, void (*program)(void))
{
    begin(round);
    program();
    put_exit(&plain);
    random_memory(wild);
    random_pointers(odd);
    random_worker(wild);
    copy_tile((enum sim_path)(round % 2));
    sim_tile_start_worker(plain.tile, 0, CODE, DATA);
    sim_tile_start_worker(other.tile, 0, CODE, DATA);
    run_both(round, below(2) == 0 ? 60000 : 1 + below(300));
}

START_TEST(amp_bundles_compute_the_same_on_every_path)
{
    uint64_t bundles = 0;
    for (int round = 100 * _i; round < 100 * _i + 100; round++) {
        stream_round(round, false, false, random_stream);
        bundles += sim_tile_bundles(other.tile);
    }
    ck_assert_uint_gt(bundles, 1000); /* most rounds run to their end */
}
END_TEST

START_TEST(special_numbers_compute_the_same_on_every_path)
{
    for (int round = 100 * _i; round < 100 * _i + 100; round++)
        stream_round(round, false, true, random_stream);
}
END_TEST

START_TEST(faults_in_the_middle_are_the_same_on_every_path)
{
    unsigned faults = 0;
    for (int round = 100 * _i; round < 100 * _i + 100; round++) {
        stream_round(round, true, false, random_stream);
        faults += sim_tile_fault(other.tile) != NULL;
    }
    ck_assert_uint_gt(faults, 10);
}
END_TEST

START_TEST(repeats_that_move_memory_are_the_same_on_every_path)
{
    unsigned faults = 0;
    for (int round = 200 * _i; round < 200 * _i + 200; round++) {
        stream_round(round, round % 2 == 0, false, random_moves);
        faults += sim_tile_fault(other.tile) != NULL;
    }
    ck_assert_uint_gt(faults, 5);
    ck_assert_uint_lt(faults, 150);
}
END_TEST

/* The other tests would pass if nothing were fused. */
START_TEST(repeats_of_kernels_run_in_one_step)
{
    struct sim_context *c = &other.tile->context[1];
    struct isa_inst fnop = I(SETZI_AR_ZIMM20, 13, 0);
    begin(1);
    emit(I(LD64STEP_ARPAIR_MR_MR_SIMM8, 0, 15, 2, 1), fnop);
    emit(I(ST64STEP_ARPAIR_MR_MR_SIMM8, 0, 15, 3, 1), fnop);
    emit(I(ST64STEP_ARPAIR_MR_MR_SIMM8, 0, 15, 3, 1), fnop);
    uint32_t row = plain.at;
    for (int phase = 0; phase < 4; phase++)
        emit(I(LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6, 0, 4, 4, 15, 0),
             I(F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, phase));
    copy_tile(SIM_PATH_BEST);
    uint32_t address[3] = {DATA, WIDE, WIDE + 8};
    set_pair(4, address);
    memcpy(c->m, plain.tile->context[1].m, sizeof c->m);
    const struct sim_page *page = sim_code_fetch(other.tile, 0);
    static const uint32_t starts[] = {0, 16, 24}, bodies[] = {2, 1, 4};
    for (int i = 0; i < 3; i++) {
        c->m[2] = DATA, c->m[3] = WIDE;
        c->pc = c->repeat_first = CODE + starts[i];
        c->repeat_end = c->pc + 8 * bodies[i];
        c->repeat_left = 10;
        const struct sim_op *op = &page->ops[(c->pc - IPU21_SRAM_BASE) / 4];
        uint64_t done = i < 2 ? sim_fused_move(c, op, 60000) : page->fused(c, page, 60000);
        ck_assert_uint_eq(done, 10 * bodies[i]);
        ck_assert_uint_eq(c->pc, CODE + starts[i] + 8 * bodies[i]);
    }
    ck_assert_uint_eq(row, CODE + starts[2]);
}
END_TEST

/* A whole product row: 40 trips of four phases; address `which` goes wrong in trip `trip`. */
static void product_repeat(int trips)
{
    begin(1);
    align8(&plain);
    emit(I(RPT_ZIMM12_ZIMM8, trips, 3), I(SETZI_AR_ZIMM20, 15, 0));
    for (int phase = 0; phase < 4; phase++)
        emit(I(LD2XST64PACE_ARQUAD_ARPAIR_MRPAIR_MR_PACE6, 0, 4 + phase % 2 * 2, 2, 15, 0),
             I(F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4 + phase % 2 * 2, 0, 2, phase));
    put_exit(&plain);
    random_memory(false);
    random_worker(false);
    plain.tile->csr[0x20] = 0;
}

static void run_product(const uint32_t address[3], enum sim_path path)
{
    set_pair(2, address);
    copy_tile(path);
    sim_tile_start_worker(plain.tile, 0, CODE, DATA);
    sim_tile_start_worker(other.tile, 0, CODE, DATA);
    run_both((int)path, 60000);
}

START_TEST(a_repeat_that_leaves_sram_faults_in_its_trip)
{
    product_repeat(40);
    uint32_t address[3] = {DATA, 0xe8000 - 8 * 58, WIDE + 8};
    run_product(address, (enum sim_path)_i);
    const struct sim_fault *fault = sim_tile_fault(other.tile);
    ck_assert_ptr_nonnull(fault);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_INVALID_ADDR);
    ck_assert_uint_eq(fault->cycle, 6 * (1 + 58));
    ck_assert_ptr_nonnull(strstr(fault->text, "0xe8000"));
}
END_TEST

START_TEST(a_repeat_whose_accesses_meet_faults_in_its_trip)
{
    product_repeat(40);
    /* An odd number of atoms apart, across a border of pairs. */
    uint32_t apart[3] = {DATA, WIDE + 0x8000 - 8 * 31, WIDE + 0x8000 - 8 * 2};
    run_product(apart, (enum sim_path)_i);
    const struct sim_fault *fault = sim_tile_fault(other.tile);
    ck_assert_ptr_null(fault);
    product_repeat(40);
    uint32_t meeting[3] = {0x54000 - 8 * 30, WIDE, 0x54000 + 8};
    run_product(meeting, (enum sim_path)_i);
    fault = sim_tile_fault(other.tile);
    ck_assert_ptr_nonnull(fault);
    ck_assert_int_eq(fault->etype, SIM_ETYPE_CONFLICT);
    ck_assert_uint_eq(fault->cycle, 6 * (1 + 30));
}
END_TEST

START_TEST(a_repeat_that_stores_into_its_own_code_runs_the_new_code)
{
    product_repeat(40);
    uint32_t address[3] = {DATA, WIDE, CODE - 64};
    run_product(address, (enum sim_path)_i);
    const struct sim_fault *fault = sim_tile_fault(other.tile);
    ck_assert_ptr_nonnull(fault); /* products are no instructions */
    ck_assert_uint_lt(fault->cycle, 6 * 40);
}
END_TEST

/* --- the supervisor beside its workers --- */

static struct isa_inst random_pure(void)
{
    switch (below(4)) {
    case 0:
        return I(SETZI_MR_ZIMM20, 4 + (int)below(4), (int)below(100));
    case 1:
        return I(ADD_MR_MR_SIMM16, 4 + (int)below(4), 4 + (int)below(4), 3);
    case 2:
        return I(BRNZDEC_MR_WADDR19, 8, (int32_t)plain.at + 4 * (1 + (int)below(2)));
    default:
        return I(ADD_MR_MR_MR, 4 + (int)below(4), 4 + (int)below(4), 4 + (int)below(4));
    }
}

/* What the supervisor does between a launch and its join; its loads and stores meet those of the
 * first worker. */
static void random_between(void)
{
    for (unsigned n = below(6); n > 0; n--) {
        if (below(5) == 0)
            put(&plain, I(LD32_MR_MR_MR_ZIMM12, 4 + (int)below(4), 10, 15, (int)below(40)));
        else if (below(8) == 0)
            put(&plain, I(ST32_MR_MR_MR_ZIMM12, 4 + (int)below(4), 10, 15, (int)below(40)));
        else
            put(&plain, random_pure());
    }
}

/* Workers count words of their own areas up, for different times, and leave or fault. */
static void put_workers(bool faults)
{
    put(&plain, I(GET_MR_CSR8, 0, 0)); /* WSR: the worker's number */
    put(&plain, I(AND_MR_MR_ZIMM12, 0, 0, 7));
    put(&plain, I(MUL_MR_MR_SIMM16, 1, 0, (int)below(4)));
    put(&plain, I(ADD_MR_MR_SIMM16, 1, 1, (int)below(9)));
    uint32_t loop = plain.at;
    put(&plain, I(LD32_MR_MR_MR_ZIMM12, 2, 13, 0, 0));
    put(&plain, I(ADD_MR_MR_SIMM16, 2, 2, 1));
    put(&plain, I(ST32_MR_MR_MR_ZIMM12, 2, 13, 15, (int)below(40)));
    if (faults && below(2) == 0)
        put(&plain, I(LD32_MR_MR_MR_ZIMM12, 3, 13, 1, 0)); /* misaligned when $m1 % 4 != 0 */
    put(&plain, I(BRNZDEC_MR_WADDR19, 1, (int32_t)loop));
    put_exit(&plain);
}

static void supervisor_round(int round, bool faults)
{
    begin(round);
    uint32_t worker = CODE + 0x200;
    put(&plain, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&plain, I(SETZI_MR_ZIMM20, 10, DATA));
    put(&plain, I(SETZI_MR_ZIMM20, 8, (int)below(3)));
    for (unsigned n = 1 + below(3); n > 0; n--) {
        if (below(4) == 0)
            put(&plain, I(RUN_MR_MR_ZIMM16, 0, 15, (DATA - IPU21_SRAM_BASE) / 4));
        else
            put(&plain, I(RUNALL_MR_MR_ZIMM16, 0, 10, 64));
        random_between();
        put(&plain, I(SYNC_ZIMM4, 2));
    }
    put(&plain, I(SYNC_ZIMM4, 3));
    ck_assert_uint_lt(plain.at, worker);
    plain.at = worker;
    put_workers(faults);
    copy_tile((enum sim_path)(round % 2));
    plain.tile->context[0].active = other.tile->context[0].active = true;
    uint64_t slice = below(2) == 0 ? 60000 : 1 + below(60);
    if (!faults) {
        run_both(round, slice);
        return;
    }
    enum sim_stop stop = SIM_STOP_LIMIT, stop_plain = sim_tile_run(plain.tile, 60000);
    for (uint64_t at = slice; stop == SIM_STOP_LIMIT; at += slice)
        stop = sim_tile_run(other.tile, at);
    ck_assert_int_eq((int)stop, (int)stop_plain);
    compare_faults(round);
    compare_context(&plain.tile->context[0], &other.tile->context[0], round);
}

START_TEST(a_supervisor_beside_workers_is_the_same_on_every_path)
{
    for (int round = 200 * _i; round < 200 * _i + 200; round++)
        supervisor_round(round, false);
}
END_TEST

START_TEST(a_supervisor_beside_faulting_workers_is_the_same_on_every_path)
{
    unsigned faults = 0;
    for (int round = 200 * _i; round < 200 * _i + 200; round++) {
        supervisor_round(round, true);
        faults += sim_tile_fault(other.tile) != NULL;
    }
    ck_assert_uint_gt(faults, 10);
}
END_TEST

/* --- the whole chip --- */

/* $m0 times: load, multiply and store four bundles of products. */
static void product_loop(void)
{
    uint32_t loop = plain.at;
    for (int phase = 0; phase < 4; phase++)
        emit(I(LD64_ARPAIR_MR_MR_ZIMM12, 0, 13, 15, phase),
             I(F16V4HIHOV4AMP_ARPAIR_ARPAIR_ARPAIR_ENUM6, 4, 0, 2, phase));
    put(&plain, I(ST64_ARPAIR_MR_MR_ZIMM12, 4, 13, 15, 9));
    put(&plain, I(ADD_MR_MR_MR, 1, 1, 0));
    put(&plain, I(ST32STEP_MR_MR_MR_SIMM8, 1, 13, 3, 0));
    put(&plain, I(BRNZDEC_MR_WADDR19, 0, (int32_t)loop));
}

/* Three phases of workers and a synchronisation on every tile; workers of a tile take as long as
 * its number says. */
static void put_phases(void)
{
    uint32_t worker = CODE + 0x100;
    put(&plain, I(SETZI_MR_ZIMM20, 0, (int32_t)worker));
    put(&plain, I(SETZI_MR_ZIMM20, 10, DATA));
    put(&plain, I(SETZI_MR_ZIMM20, 8, 2));
    uint32_t loop = plain.at;
    put(&plain, I(RUNALL_MR_MR_ZIMM16, 0, 10, 64));
    put(&plain, I(ADD_MR_MR_SIMM16, 7, 7, 1));
    put(&plain, I(SYNC_ZIMM4, 2));
    put(&plain, I(SYNC_ZIMM4, 3));
    put(&plain, I(BRNZDEC_MR_WADDR19, 8, (int32_t)loop));
    put(&plain, I(SYNC_ZIMM4, 7));
    plain.at = worker;
    put(&plain, I(LD32_MR_MR_MR_ZIMM12, 0, 15, 15, 0)); /* patched: the tile's word */
    product_loop();
    put_exit(&plain);
}

struct outcome {
    uint64_t cycle, bundles, hash;
};

static uint64_t hash_tile(struct sim_chip *chip, unsigned tile, uint64_t hash)
{
    uint64_t words[256];
    ck_assert(sim_chip_read(chip, tile, DATA, words, sizeof words));
    for (unsigned i = 0; i < 256; i++)
        hash = (hash ^ words[i]) * 0xff51afd7ed558ccdu;
    return hash ^ sim_tile_cycle(sim_chip_tile(chip, tile));
}

static struct outcome run_chip(unsigned threads, enum sim_path path)
{
    struct sim_chip *chip =
        sim_chip_create(&(struct sim_chip_options){.threads = threads, .path = path});
    ck_assert_ptr_nonnull(chip);
    for (unsigned tile = 0; tile < IPU21_TILES; tile++) {
        struct isa_inst trips = I(SETZI_MR_ZIMM20, 0, (int32_t)(tile % 37));
        uint32_t word[2], data[512];
        ck_assert(isa_encode(&trips, false, word));
        memcpy(data, plain.sram + (DATA - IPU21_SRAM_BASE), sizeof data);
        data[5] = tile;
        if (!sim_chip_write(chip, tile, CODE, plain.sram + (CODE - IPU21_SRAM_BASE), 0x200) ||
            !sim_chip_write(chip, tile, CODE + 0x100, word, 4) ||
            !sim_chip_write(chip, tile, DATA, data, sizeof data))
            ck_abort_msg("tile %u cannot be loaded", tile);
    }
    sim_chip_start(chip, CODE);
    ck_assert_int_eq((int)sim_chip_run(chip, UINT64_MAX, NULL), (int)SIM_CHIP_WAITS_FOR_HOST);
    struct outcome outcome = {sim_chip_cycle(chip), sim_chip_bundles(chip), 0};
    for (unsigned tile = 0; tile < IPU21_TILES; tile += 11)
        outcome.hash = hash_tile(chip, tile, outcome.hash);
    sim_chip_destroy(chip);
    return outcome;
}

START_TEST(threads_and_paths_give_one_result)
{
    static const unsigned threads[] = {2, 8, 1, 3};
    static const enum sim_path paths[] = {SIM_PATH_BEST, SIM_PATH_BEST, SIM_PATH_PORTABLE,
                                          SIM_PATH_PLAIN};
    begin(7);
    random_memory(false);
    put_phases();
    struct outcome first = run_chip(1, SIM_PATH_BEST);
    ck_assert_uint_gt(first.bundles, 3u * 6 * IPU21_TILES * 37);
    struct outcome again = run_chip(threads[_i], paths[_i]);
    ck_assert_uint_eq(again.cycle, first.cycle);
    ck_assert_uint_eq(again.bundles, first.bundles);
    ck_assert_uint_eq(again.hash, first.hash);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths");
    TCase *tests = tcase_create("paths");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, amp_bundles_compute_the_same_on_every_path, 0, 4);
    tcase_add_loop_test(tests, special_numbers_compute_the_same_on_every_path, 0, 4);
    tcase_add_loop_test(tests, faults_in_the_middle_are_the_same_on_every_path, 0, 4);
    tcase_add_loop_test(tests, repeats_that_move_memory_are_the_same_on_every_path, 0, 4);
    tcase_add_test(tests, repeats_of_kernels_run_in_one_step);
    tcase_add_loop_test(tests, a_repeat_that_leaves_sram_faults_in_its_trip, 0, 3);
    tcase_add_loop_test(tests, a_repeat_whose_accesses_meet_faults_in_its_trip, 0, 3);
    tcase_add_loop_test(tests, a_repeat_that_stores_into_its_own_code_runs_the_new_code, 0, 3);
    tcase_add_loop_test(tests, a_supervisor_beside_workers_is_the_same_on_every_path, 0, 4);
    tcase_add_loop_test(tests, a_supervisor_beside_faulting_workers_is_the_same_on_every_path, 0,
                        4);
    tcase_add_loop_test(tests, threads_and_paths_give_one_result, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
