/* Control and status registers as get, put, uget and uput see them.
 *
 * Indices, fields and contexts come from the table of device/ipu21/csr.h; an index that the mode
 * does not have is INVALID_OP. Registers of the exchange live in struct sim_exchange_state. The
 * facts list nearly all registers as readable and writable; those that cannot sensibly be written
 * (counters, PC, status) refuse a put with INVALID_OP [I].
 */
#include "device/sim/core.h"

#include "device/ipu21/csr.h"
#include "device/ipu21/topology.h"

static int illegal_index(struct sim_context *c, unsigned index)
{
    return sim_fault_at(c, SIM_ETYPE_INVALID_OP,
                        "this mode has no such control register, or it is read-only: index", index);
}

static int float_get(struct sim_context *c, unsigned index, uint32_t *value)
{
    switch (index) {
    case CSR_W_FP_STS:
        *value = c->fp_sts;
        return 0;
    case CSR_W_FP_CLR:
    case CSR_W_PRNG_SEED:
        *value = 0;
        return 0;
    case CSR_W_FP_CTL:
        *value = c->fp_ctl;
        return 0;
    case CSR_W_PRNG_0_0:
        *value = (uint32_t)c->prng[0];
        return 0;
    case CSR_W_PRNG_0_1:
        *value = (uint32_t)(c->prng[0] >> 32);
        return 0;
    case CSR_W_PRNG_1_0:
        *value = (uint32_t)c->prng[1];
        return 0;
    case CSR_W_PRNG_1_1:
        *value = (uint32_t)(c->prng[1] >> 32);
        return 0;
    case CSR_W_TAS:
        *value = c->tas;
        return 0;
    case CSR_W_FP_NFMT:
        *value = c->fp_nfmt;
        return 0;
    case CSR_W_FP_SCL:
        *value = c->fp_scl;
        return 0;
    default:
        return illegal_index(c, index);
    }
}

static void set_half(uint64_t *word, unsigned shift, uint32_t value)
{
    *word = (*word & ~(0xffffffffull << shift)) | (uint64_t)value << shift;
}

static int float_put(struct sim_context *c, unsigned index, uint32_t value)
{
    switch (index) {
    case CSR_W_FP_STS:
        c->fp_sts = value & 7;
        return 0;
    case CSR_W_FP_CLR:
        c->fp_sts &= ~(value & 7);
        if ((value & 8) != 0)
            memset(&c->acc, 0, sizeof c->acc);
        return 0;
    case CSR_W_FP_CTL:
        c->fp_ctl = value & SIM_FP_CTL_MASK;
        return 0;
    case CSR_W_PRNG_0_0:
    case CSR_W_PRNG_1_0:
        set_half(&c->prng[index == CSR_W_PRNG_1_0], 0, value);
        return 0;
    case CSR_W_PRNG_0_1:
    case CSR_W_PRNG_1_1:
        set_half(&c->prng[index == CSR_W_PRNG_1_1], 32, value);
        return 0;
    case CSR_W_PRNG_SEED: /* expansion: facts/csrs.tsv */
        c->prng[0] = value | (uint64_t)~value << 32;
        c->prng[1] = (value << 13 | ~value >> 19) | (uint64_t)(~value << 13 | value >> 19) << 32;
        return 0;
    case CSR_W_TAS:
        c->tas = value;
        return 0;
    case CSR_W_FP_NFMT:
        c->fp_nfmt = value & 2;
        return 0;
    case CSR_W_FP_SCL:
        c->fp_scl = value & 63;
        return 0;
    default:
        return illegal_index(c, index);
    }
}

static int worker_get(struct sim_context *c, unsigned index, uint32_t *value)
{
    switch (index) {
    case CSR_W_WSR:
        *value = c->wsr | (c->number - 1u);
        return 0;
    case CSR_W_VERTEX_BASE:
        *value = c->m[13];
        return 0;
    case CSR_W_WORKER_BASE:
        *value = c->m[12];
        return 0;
    case CSR_W_REPEAT_COUNT:
        *value = c->repeat_left;
        return 0;
    case CSR_W_REPEAT_FIRST:
        *value = c->repeat_first;
        return 0;
    case CSR_W_REPEAT_END:
        *value = c->repeat_last;
        return 0;
    default:
        return float_get(c, index, value);
    }
}

static int worker_put(struct sim_context *c, unsigned index, uint32_t value)
{
    switch (index) {
    case CSR_W_VERTEX_BASE:
        c->m[13] = value & ~3u;
        return 0;
    case CSR_W_REPEAT_COUNT:
        c->repeat_left = value & 0xffff;
        return 0;
    case CSR_W_REPEAT_FIRST:
        c->repeat_first = value & ~7u;
        return 0;
    case CSR_W_REPEAT_END: /* rpt sets it again before it can matter */
        c->repeat_last = value & ~7u;
        return 0;
    default:
        return float_put(c, index, value);
    }
}

static uint32_t supervisor_status(const struct sim_tile *tile)
{
    return (tile->consensus ? 1u : 0) | (tile->exchange.ans_count != 0 ? 4u : 0) |
           (tile->run_error ? 8u : 0) | (tile->context[0].wsr & 0xf0);
}

static uint32_t context_status(const struct sim_tile *tile)
{
    uint32_t status = 1; /* the reading supervisor is active */
    for (unsigned w = 1; w <= IPU21_WORKERS; w++)
        status |= (uint32_t)tile->context[w].active << (2 * w);
    return status;
}

static int supervisor_get(struct sim_context *c, unsigned index, uint32_t *value)
{
    const struct sim_tile *tile = c->tile;
    if (index >= CSR_S_INCOMING_MUX && index <= CSR_S_EXCHANGE_ADJ) {
        *value = sim_exchange_get(tile, index);
        return 0;
    }
    switch (index) {
    case CSR_S_SSR:
        *value = supervisor_status(tile);
        return 0;
    case CSR_S_CR:
        *value = 0;
        return 0;
    case CSR_S_TILE_ID:
        *value = ipu21_physical(tile->logical);
        return 0;
    case CSR_S_CTXT_STS:
        *value = context_status(tile);
        return 0;
    default:
        break;
    }
    if (!csr_at(CSR_SPACE_LOWER, true, index))
        return illegal_index(c, index);
    *value = tile->csr[index];
    return 0;
}

static int control_put(struct sim_tile *tile, uint32_t value)
{
    if ((value & 1) != 0)
        tile->consensus = false;
    if ((value & 2) != 0)
        tile->consensus = true;
    if ((value & 4) != 0) {
        memset(tile->cwei, 0, sizeof tile->cwei);
        tile->f16_valid = tile->f8_valid = false;
    }
    return 0;
}

static int supervisor_put(struct sim_context *c, unsigned index, uint32_t value)
{
    struct sim_tile *tile = c->tile;
    if (index >= CSR_S_INCOMING_MUX && index <= CSR_S_EXCHANGE_ADJ)
        return sim_exchange_put(tile, index, value);
    switch (index) {
    case CSR_S_SSR: /* software clears RAERR by writing 0 [I] */
        tile->run_error = tile->run_error && (value & 8) != 0;
        return 0;
    case CSR_S_CR:
        return control_put(tile, value);
    case CSR_S_FP_ICTL:
        tile->csr[index] = value & SIM_FP_CTL_MASK;
        return 0;
    case CSR_S_FP_INFMT:
        tile->csr[index] = value & 3;
        tile->f8_valid = false;
        return 0;
    case CSR_S_TILE_ID:
    case CSR_S_CTXT_STS:
        return illegal_index(c, index);
    default:
        break;
    }
    if (!csr_at(CSR_SPACE_LOWER, true, index))
        return illegal_index(c, index);
    tile->csr[index] = value;
    return 0;
}

int sim_csr_get(struct sim_context *c, unsigned index, uint32_t *value)
{
    switch (index) {
    case CSR_C_PC:
        *value = c->pc;
        return 0;
    case CSR_W_COUNT_L: /* and SCOUNT_L: the chip's cycle */
        *value = (uint32_t)c->cycle;
        return 0;
    case CSR_W_COUNT_U:
        *value = (uint32_t)(c->cycle >> 32);
        return 0;
    case CSR_C_DBG_DATA:
        *value = c->tile->csr[CSR_C_DBG_DATA];
        return 0;
    case CSR_C_DBG_BRK_ID:
        *value = c->dbg_brk_id;
        return 0;
    default:
        return c->number == 0 ? supervisor_get(c, index, value) : worker_get(c, index, value);
    }
}

int sim_csr_put(struct sim_context *c, unsigned index, uint32_t value)
{
    switch (index) {
    case CSR_C_PC:
    case CSR_W_COUNT_L:
    case CSR_W_COUNT_U:
        return illegal_index(c, index);
    case CSR_C_DBG_DATA:
        c->tile->csr[CSR_C_DBG_DATA] = value;
        return 0;
    case CSR_C_DBG_BRK_ID:
        c->dbg_brk_id = value & 1;
        return 0;
    default:
        return c->number == 0 ? supervisor_put(c, index, value) : worker_put(c, index, value);
    }
}
