/* Exchange rows and phases on the whole chip: physical tile 0 multicasts to 32 and 53, all other
 * tiles sit the sync out (exchange.inc). The receivers' words are checked.
 *
 * How much earlier the receivers arrive than the sender is an input, as it was a circumstance of
 * the measurement. Rows follow facts/exchange.md section 4. Fails when a tile faults or a word is
 * wrong.
 */
#include "tests/fidelity/subject.h"

#include "device/ipu21/exchange.h"
#include "device/ipu21/topology.h"
#include "device/sim/chip.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SENDER = 0,
    TILES = 3,
    FROM = 0x80000,
    TO = 0xa0000,
    FIRST_WORD = 0xc0de0000u & 0x7fffffff,
    LIMIT = 1 << 28,
    PLACES = 8192
};

static const unsigned physical[TILES] = {0, 32, 53};

struct program {
    char text[PLACES];
    size_t length;
    uint32_t events; /* of the row so far */
};

static void __attribute__((format(printf, 2, 3))) add(struct program *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(p->text + p->length, sizeof p->text - p->length, format, list);
    va_end(list);
    if (length > 0 && (size_t)length < sizeof p->text - p->length)
        p->length += (size_t)length;
}

static void word(struct program *p, uint32_t code, uint32_t events)
{
    add(p, ".long %#x\n", code);
    p->events += events;
}

static void wait_events(struct program *p, uint32_t events)
{
    if (events != 0)
        word(p, ipu21_delay(events), events);
}

/* Slot in which the sender starts: the earliest that leaves every receiver its source select. */
static uint32_t start_slot(void)
{
    int least = 0;
    for (unsigned i = 1; i < TILES; i++) {
        int ttm = ipu21_ttm(physical[SENDER], physical[i]);
        least = ttm < least ? ttm : least;
    }
    return (uint32_t)-least;
}

static void send_row(struct program *p, uint32_t words)
{
    uint32_t first = words < IPU21_MAX_SEND ? words : IPU21_MAX_SEND;
    wait_events(p, start_slot());
    word(p, ipu21_send(first, FROM / 4, IPU21_SEND_BOTH), first);
    if (words > first)
        word(p, ipu21_sendoff(words - first, 0, IPU21_SEND_BOTH), words - first);
}

static void receive_row(struct program *p, unsigned tile, uint32_t words)
{
    uint32_t slot = start_slot() + (uint32_t)ipu21_ttm(physical[SENDER], physical[tile]);
    uint32_t pointer = 52 + 2 * ipu21_row(physical[tile]),
             pic = words == pointer ? pointer - 1 : pointer;
    word(p, ipu21_delayxpic(slot + 1, 0, physical[SENDER]), slot + 1);
    if (words < pic)
        word(p, ipu21_delayxpic(words, 0, IPU21_MUX_NEUTRAL), words);
    word(p, ipu21_delaypic(words < pic ? pic - words : pic, 0, TO / 4),
         words < pic ? pic - words : pic);
    if (words > pic)
        word(p, ipu21_delayxpic(words - pic, 0, IPU21_MUX_NEUTRAL), words - pic);
    wait_events(p, slot + 1 + pointer + words + IPU21_RECEIVE_GUARD - p->events);
}

/* The row of one tile from the label on; returns its horizon. */
static uint32_t row(struct program *p, unsigned tile, uint32_t words)
{
    p->events = 0;
    if (tile == SENDER)
        send_row(p, words);
    else
        receive_row(p, tile, words);
    return p->events;
}

static void begin(struct program *p, uint32_t lead)
{
    p->length = 0;
    add(p,
        "#include \"exchange.inc\"\n.section .text.entry, \"ax\"\n.supervisor\n.globl entry\n"
        ".align 8\nentry:\nsetzi $m11, %#x\nsample_cells\nsetzi $m6, command\nsetzi $m7, 2\n",
        RIG_STACK);
    if (lead != 0)
        word(p, ipu21_delay(lead), 0);
}

static void end(struct program *p)
{
    add(p, "wait:\nsync 7\nbri wait\n.section .text.row, \"ax\"\n.align 8\nrow:\n");
}

/* --- the chip -------------------------------------------------------------------------------- */

static int load(struct sim_chip *chip, unsigned tile, const struct program *p,
                struct ipu_error *error)
{
    char cells[2][16];
    snprintf(cells[0], sizeof cells[0], "%d", RIG_CELLS);
    snprintf(cells[1], sizeof cells[1], "%d", RIG_CELLS + 8);
    const struct asm_define defines[] = {{"RIG_CELL", cells[0]}, {"SAMPLE_CELL", cells[1]}};
    struct asm_image image = {0};
    int err = rig_assemble("exchange.inc", p->text, defines, 2, &image, error);
    if (err != 0)
        return err;
    uint32_t entry = asm_image_symbol(&image, "entry"), jump = 0x13f00000u | entry >> 2;
    bool loaded =
        sim_chip_write(chip, tile, RIG_CODE, image.bytes.data, (uint32_t)image.bytes.size) &&
        sim_chip_write(chip, tile, 0x4c014, &jump, 4);
    asm_image_free(&image);
    return loaded ? 0 : ipu_error_set(error, IPU_ERR_INTERNAL, "fidelity: the image is too large");
}

static void load_idle(struct sim_chip *chip)
{
    const uint32_t code[] = {ipu21_sans(0), ipu21_sync(IPU21_ZONE_ANS), ipu21_sync(IPU21_ZONE_HOST),
                             0x13f00000u | 0x4c01c >> 2};
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (!sim_chip_write(chip, i, 0x4c014, code, sizeof code))
            return;
}

static int run(struct sim_chip *chip, struct ipu_error *error)
{
    sim_chip_start(chip, 0x4c014);
    enum sim_chip_state state = sim_chip_run(chip, LIMIT, NULL);
    if (state == SIM_CHIP_WAITS_FOR_HOST)
        return 0;
    const struct sim_fault *fault = sim_chip_fault(chip);
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "fidelity: the exchange did not end: %s",
                         fault ? fault->text : "a tile waits for ever");
}

static uint32_t chip_word(const struct sim_chip *chip, unsigned tile, uint32_t address)
{
    uint32_t value = 0;
    if (!sim_chip_read(chip, ipu21_logical(physical[tile]), address, &value, 4))
        return 0;
    return value;
}

static int check_words(const struct sim_chip *chip, uint32_t words, struct ipu_error *error)
{
    for (unsigned tile = 1; tile < TILES; tile++)
        for (uint32_t i = 0; i <= words; i++) {
            uint32_t expected = i < words ? FIRST_WORD + i : 0;
            if (chip_word(chip, tile, TO + 4 * i) != expected)
                return ipu_error_set(
                    error, IPU_ERR_CHECK_FAILED,
                    "fidelity: physical tile %u received something else than word %u",
                    physical[tile], i);
        }
    return 0;
}

static struct sim_chip *open_chip(uint32_t words, struct ipu_error *error)
{
    struct sim_chip_options options = {.threads = 1};
    struct sim_chip *chip = sim_chip_create(&options);
    if (!chip) {
        ipu_error_set(error, IPU_ERR_NO_MEMORY, "fidelity: no memory for a chip");
        return NULL;
    }
    load_idle(chip);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t value = FIRST_WORD + i;
        if (!sim_chip_write(chip, 0, FROM + 4 * i, &value, 4))
            break;
    }
    return chip;
}

/* Loads a program for each of the three tiles with `write`, runs, checks. */
static int measure(const uint32_t p[], void (*write)(struct program *, unsigned, const uint32_t[]),
                   uint32_t words, uint32_t samples[TILES][2], struct ipu_error *error)
{
    struct sim_chip *chip = open_chip(words, error);
    if (!chip)
        return IPU_ERR_NO_MEMORY;
    struct program program;
    int err = 0;
    for (unsigned tile = 0; tile < TILES && err == 0; tile++) {
        write(&program, tile, p);
        err = load(chip, ipu21_logical(physical[tile]), &program, error);
    }
    if (err == 0)
        err = run(chip, error);
    if (err == 0)
        err = check_words(chip, words, error);
    for (unsigned tile = 0; tile < TILES; tile++)
        for (unsigned i = 0; i < 2; i++)
            samples[tile][i] = chip_word(chip, tile, RIG_CELLS + 4 * i);
    sim_chip_destroy(chip);
    return err;
}

/* --- subjects -------------------------------------------------------------------------------- */

static void write_row(struct program *p, unsigned tile, const uint32_t parameters[])
{
    begin(p, tile == SENDER ? parameters[2] : 0);
    add(p, "sample SAMPLE_CELL\ndiagnostic\n");
    end(p);
    add(p, "sync 3\n");
    row(p, tile, parameters[0]);
    add(p, "br $m10\n");
}

int subject_row(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    uint32_t samples[TILES][2];
    int err = measure(p, write_row, p[0], samples, error);
    *cycles = samples[p[1]][1] - samples[p[1]][0];
    return err;
}

enum { PHASE_WORDS = 40 };

/* A row of `horizon` events: 40 words at its start. A second section sets bases between two delays.
 */
static void write_phase(struct program *p, unsigned tile, const uint32_t parameters[])
{
    begin(p, 0);
    add(p, "setzi $m2, RIG_CELL\ncall $m10, take_sample\nproduction %u\n", parameters[2]);
    add(p, "setzi $m2, RIG_CELL + 4\ncall $m10, take_sample\n");
    end(p);
    uint32_t events = row(p, tile, PHASE_WORDS);
    if (parameters[1])
        add(p, "setzi $m8, 0\nput $INCOMING_BASE, $m8\nput $OUTGOING_BASE, $m8\nnop\nnop\n"
               "nop\nnop\nput $OUTGOING_BASE, $mzero\nnop\nnop\n");
    wait_events(p, parameters[0] - events);
    add(p, "br $m10\n");
}

int subject_phase(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles, struct ipu_error *error)
{
    uint32_t samples[TILES][2], entry = 0, last = 0;
    int err = measure(p, write_phase, PHASE_WORDS, samples, error);
    for (unsigned tile = 0; tile < TILES && err == 0; tile++) {
        entry = samples[tile][0] > entry ? samples[tile][0] : entry;
        last = samples[tile][1] > last ? samples[tile][1] : last;
    }
    *cycles = last - entry;
    return err;
}

int subject_residual(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                     struct ipu_error *error)
{
    int err = subject_phase(p, cycles, error);
    *cycles -= p[0];
    return err;
}

/* Slot of a send behind `puts`, less that of a send at once. */
int subject_base_put(const uint32_t p[SUBJECT_PARAMETERS], uint32_t *cycles,
                     struct ipu_error *error)
{
    const uint32_t plain[] = {ipu21_setzi(8, 0x1000), ipu21_send(1, FROM / 4, 3),
                              ipu21_sync(IPU21_ZONE_HOST)};
    const uint32_t one[] = {ipu21_setzi(8, 0x1000), ipu21_put(IPU21_CSR_OUTGOING_BASE, 15),
                            ipu21_send(1, FROM / 4, 3), ipu21_sync(IPU21_ZONE_HOST)};
    const uint32_t two[] = {ipu21_setzi(8, 0x1000), ipu21_put(IPU21_CSR_INCOMING_BASE, 8),
                            ipu21_put(IPU21_CSR_OUTGOING_BASE, 15), ipu21_send(1, FROM / 4, 3),
                            ipu21_sync(IPU21_ZONE_HOST)};
    const uint32_t *const codes[] = {plain, p[0] == 1 ? one : two};
    const size_t sizes[] = {sizeof plain, p[0] == 1 ? sizeof one : sizeof two};
    uint32_t slots[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++) {
        struct rig rig;
        int err = rig_open(&rig, error);
        if (err != 0)
            return err;
        memcpy(rig_memory(&rig, RIG_CODE), codes[i], sizes[i]);
        sim_tile_reset(rig.tile, RIG_CODE, 0);
        size_t count = 0;
        bool stopped = sim_tile_run(rig.tile, LIMIT) == SIM_STOP_SYNC;
        const struct sim_event *events = sim_tile_events(rig.tile, &count);
        for (size_t k = 0; stopped && k < count; k++)
            slots[i] = events[k].kind == SIM_EVENT_SEND ? events[k].slot : slots[i];
        rig_close(&rig);
    }
    /* The setzi of the longer sequence belongs to it. */
    *cycles = slots[1] - slots[0] + (p[0] == 2);
    return 0;
}
