/* Runs one call on one simulated tile as the measured system does: see fidelity.h.
 *
 * The program text is made of the call only: six worker bases, stack, sample, arguments, call,
 * sample, deliberate stop (a branch to address 0). Invariant: cycles are what worker 0 has read
 * from COUNT_L. Fails when a source does not assemble or when the tile stops anywhere else.
 */
#include "tests/fidelity/fidelity.h"

#include "base/alloc.h"
#include "device/ipu21/memory.h"
#include "device/sim/tile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 4096, LIMIT = 1 << 28 };

struct text {
    char bytes[TEXT_BYTES];
    size_t length;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, list);
    va_end(list);
    if (length > 0)
        t->length += (size_t)length;
}

static void write_program(struct text *t, const struct rig_call *call)
{
    add(t, ".set SAMPLE_CELL, %#x\n#include \"%s\"\n", RIG_CELLS + 8, call->source);
    add(t, ".section .text.entry, \"ax\"\n.supervisor\n.globl entry\n.align 8\nentry:\n");
    for (unsigned w = 0; w < 6; w++)
        add(t, "setzi $m0, %#x\nput $WORKER%u_BASE, $m0\n", RIG_STACK + 64 * (w + 1), w);
    add(t, "setzi $m11, %#x\nsetzi $m2, %#x\ncall $m10, take_sample\n", RIG_STACK, RIG_CELLS);
    for (unsigned i = 0; i < call->arg_count; i++)
        add(t, "setzi $m%u, %u\n", 2 + i, call->args[i]);
    add(t, "call $m10, kernel\nsetzi $m2, %#x\ncall $m10, take_sample\nbr $mzero\n", RIG_CELLS + 4);
}

static const char *include(void *context, const char *name, size_t *length)
{
    (void)context;
    return fidelity_source(name, length);
}

int rig_assemble(const char *name, const char *text, const struct asm_define *defines,
                 unsigned define_count, struct asm_image *image, struct ipu_error *error)
{
    struct buffer object = {0};
    struct asm_options options = {
        .defines = defines, .define_count = define_count, .include = include};
    int err = asm_assemble(name, text, strlen(text), &options, &object, error);
    if (err == 0) {
        struct asm_object part = {object.data, object.size, name};
        struct asm_link_options link = {.base = RIG_CODE};
        err = asm_link(&part, 1, &link, image, error);
    }
    buffer_free(&object);
    return err;
}

int rig_open(struct rig *rig, struct ipu_error *error)
{
    rig->sram = ipu_calloc(1, IPU21_SRAM_BYTES);
    rig->tile = rig->sram ? sim_tile_create(0, rig->sram) : NULL;
    if (rig->tile)
        return 0;
    ipu_free(rig->sram);
    return ipu_error_set(error, IPU_ERR_NO_MEMORY, "fidelity: no memory for a tile");
}

void rig_close(struct rig *rig)
{
    sim_tile_destroy(rig->tile);
    ipu_free(rig->sram);
}

void *rig_memory(struct rig *rig, uint32_t address)
{
    return rig->sram + (address - IPU21_SRAM_BASE);
}

/* To the deliberate stop. */
static int run(struct sim_tile *tile, uint32_t entry, struct ipu_error *error)
{
    sim_tile_reset(tile, entry, 0);
    enum sim_stop stop;
    while ((stop = sim_tile_run(tile, LIMIT)) == SIM_STOP_SETTLE)
        sim_tile_settled(tile);
    const struct sim_fault *fault = sim_tile_fault(tile);
    if (stop == SIM_STOP_FAULT && fault->etype == SIM_ETYPE_INVALID_PC && fault->pc == 0)
        return 0;
    return ipu_error_set(error, IPU_ERR_DEVICE_FAULT,
                         "fidelity: the tile did not come to its end: %s",
                         fault ? fault->text : "it waits or ran out of cycles");
}

int rig_run(struct rig *rig, const struct rig_call *call, uint32_t *cycles, struct ipu_error *error)
{
    struct asm_image image = {0};
    struct text text = {.length = 0};
    write_program(&text, call);
    int err =
        rig_assemble(call->source, text.bytes, call->defines, call->define_count, &image, error);
    if (err != 0)
        return err;
    memcpy(rig_memory(rig, RIG_CODE), image.bytes.data, image.bytes.size);
    err = run(rig->tile, asm_image_symbol(&image, "entry"), error);
    asm_image_free(&image);
    uint32_t sample[2];
    memcpy(sample, rig_memory(rig, RIG_CELLS), sizeof sample);
    *cycles = sample[1] - sample[0];
    return err;
}
