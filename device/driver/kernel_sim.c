/* The boundary of a simulated device: everything goes to its board (device/sim/board.h).
 *
 * The device runs only while the host waits, so that a run is the same every time. Its clock is its
 * own: 1,500 cycles are a microsecond.
 */
#include "device/driver/kernel.h"

#include "base/alloc.h"
#include "device/ipu21/timing.h"
#include "device/sim/board.h"
#include "device/sim/observe.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { CYCLES_PER_US = IPU21_CLOCK_HZ / 1000000 };

struct kernel_sim {
    struct kernel base;
    struct sim_board *board;
    const struct sim_observer *observer;
};

static struct kernel_sim *sim_of(struct kernel *kernel)
{
    return (struct kernel_sim *)kernel;
}

static void sim_close(struct kernel *kernel)
{
    sim_board_destroy(sim_of(kernel)->board);
    ipu_free(kernel);
}

static int sim_ioctl(struct kernel *kernel, uint32_t request, uintptr_t argument)
{
    return sim_board_ioctl(sim_of(kernel)->board, request, argument);
}

static uint32_t sim_read(struct kernel *kernel, uint32_t offset)
{
    return sim_board_read(sim_of(kernel)->board, offset);
}

static void sim_write(struct kernel *kernel, uint32_t offset, uint32_t value)
{
    sim_board_write(sim_of(kernel)->board, offset, value);
}

static uint64_t sim_now_us(struct kernel *kernel)
{
    return sim_board_cycle(sim_of(kernel)->board) / CYCLES_PER_US;
}

static int sim_pause(struct kernel *kernel, uint32_t microseconds, const atomic_bool *cancel)
{
    sim_board_run(sim_of(kernel)->board, (uint64_t)microseconds * CYCLES_PER_US, cancel);
    return 0;
}

static const struct kernel_ops sim_ops = {
    .close = sim_close,
    .ioctl = sim_ioctl,
    .read = sim_read,
    .write = sim_write,
    .now_us = sim_now_us,
    .pause = sim_pause,
};

int kernel_sim_open(const struct device_options *options, struct kernel **out,
                    struct ipu_error *error)
{
    struct sim_chip_options chip = {.threads = options->threads, .strict = options->strict};
    struct kernel_sim *k = ipu_calloc(1, sizeof *k);
    *out = NULL;
    if (k)
        k->board = sim_board_create(&chip);
    if (!k || !k->board) {
        ipu_free(k);
        return ipu_error_set(error, IPU_ERR_NO_MEMORY,
                             "no memory for a simulated device (about 1 GiB of address space)");
    }
    k->base = (struct kernel){.ops = &sim_ops, .name = "sim"};
    k->observer = options->observer;
    *out = &k->base;
    return 0;
}

/* --- what no card has --- */

static struct sim_chip *chip_of(struct kernel *kernel)
{
    return kernel->ops == &sim_ops ? sim_board_chip(sim_of(kernel)->board) : NULL;
}

void kernel_sim_declare(struct kernel *kernel, const struct package *package)
{
    struct sim_chip *chip = chip_of(kernel);
    size_t count;
    if (!chip)
        return;
    const struct package_row *rows = package_rows(package, &count);
    for (size_t i = 0; i < count; i++)
        sim_chip_declare_row(chip, rows[i].tile, rows[i].address, rows[i].bytes, rows[i].words);
}

void kernel_sim_observe(struct kernel *kernel, bool on)
{
    struct sim_chip *chip = chip_of(kernel);
    if (chip)
        sim_chip_observe(chip, on ? sim_of(kernel)->observer : NULL);
}

static void explain_fault(const struct sim_fault *fault, struct buffer *text)
{
    buffer_printf(text, "simulator: tile %u, ", fault->tile);
    if (fault->context == 0)
        buffer_printf(text, "supervisor");
    else
        buffer_printf(text, "worker %u", fault->context - 1);
    buffer_printf(text, ", pc 0x%x, cycle %" PRIu64 ": %s\n", fault->pc, fault->cycle, fault->text);
}

void kernel_sim_explain(struct kernel *kernel, struct buffer *text)
{
    struct sim_chip *chip = chip_of(kernel);
    if (!chip)
        return;
    const struct sim_fault *fault = sim_chip_fault(chip);
    char *where = sim_chip_explain(chip);
    if (fault)
        explain_fault(fault, text);
    if (where)
        buffer_append(text, where, strlen(where));
    ipu_free(where);
}

int kernel_sim_verdict(struct kernel *kernel, struct ipu_error *error)
{
    struct sim_chip *chip = chip_of(kernel);
    if (!chip)
        return 0;
    const struct sim_fault *fault = sim_chip_fault(chip);
    if (fault)
        return ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "%s", fault->text);
    char *where = sim_chip_explain(chip);
    int code = 0;
    if (where && strncmp(where, "deadlock", strlen("deadlock")) == 0)
        code = ipu_error_set(error, IPU_ERR_DEVICE_FAULT, "%.*s", (int)strcspn(where, "\n"), where);
    ipu_free(where);
    return code;
}

uint64_t kernel_sim_bundles(struct kernel *kernel)
{
    struct sim_chip *chip = chip_of(kernel);
    return chip ? sim_chip_bundles(chip) : 0;
}
