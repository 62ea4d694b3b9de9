/* A chip's life outside of running: memory, loading, marks, pages, start.
 *
 * SRAM of all tiles is one zeroed mapping that costs host memory only where it is touched.
 * Loading is allowed whenever no call of sim_chip_run() is in progress.
 */
#include "device/sim/chip_core.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t CHIP_SRAM = (size_t)IPU21_TILES * IPU21_SRAM_BYTES;

static bool create_tiles(struct sim_chip *chip)
{
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct chip_tile *slot = &chip->tiles[i];
        uint8_t *sram = chip->sram + (size_t)i * IPU21_SRAM_BYTES;
        slot->tile = sim_tile_create(i, sram);
        if (!slot->tile)
            return false;
        sim_tile_share(slot->tile, chip->code);
        slot->state = sim_tile_exchange(slot->tile);
        chip->settle.ports[i].tile = slot->tile;
        chip->settle.ports[i].sram = sram;
        chip->settle.ports[i].state = slot->state;
    }
    return true;
}

struct sim_chip *sim_chip_create(const struct sim_chip_options *options)
{
    struct sim_chip *chip = ipu_calloc(1, sizeof *chip);
    if (!chip)
        return NULL;
    settle_init(&chip->settle);
    chip->settle.strict = options->strict;
    void *sram = mmap(NULL, CHIP_SRAM, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    chip->sram = sram == MAP_FAILED ? NULL : sram;
    chip->code = sim_code_create(options->path);
    chip->pool = sim_pool_create(options->threads);
    chip->settle.pool = chip->pool;
    if (!chip->sram || !chip->code || !chip->pool || !create_tiles(chip)) {
        sim_chip_destroy(chip);
        return NULL;
    }
    sim_chip_reset(chip);
    return chip;
}

void sim_chip_destroy(struct sim_chip *chip)
{
    if (!chip)
        return;
    sim_pool_destroy(chip->pool);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        sim_tile_destroy(chip->tiles[i].tile);
        ipu_free(chip->tiles[i].rows.data);
    }
    settle_free(&chip->settle);
    host_free(&chip->host);
    sim_code_destroy(chip->code);
    if (chip->sram)
        munmap(chip->sram, CHIP_SRAM);
    ipu_free(chip);
}

static void forget_run(struct sim_chip *chip)
{
    chip->ready_count = 0;
    chip->application = false;
    chip->mark_cleared = false;
    chip->release = 0;
    chip->faulted = chip->deadlocked = false;
    chip->fault = (struct sim_fault){0};
    chip->reason[0] = '\0';
    host_reset(&chip->host);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct settle_port *port = &chip->settle.ports[i];
        port->faulted = false;
        port->event_count = 0;
        port->last_store = 0;
        if (port->host) {
            port->host->words.count = 0;
            port->host->listed = false;
            port->host->done = 0;
        }
        chip->tiles[i].stop = CHIP_UNLOADED;
        chip->tiles[i].cycle = 0;
    }
}

void sim_chip_reset(struct sim_chip *chip)
{
    madvise(chip->sram, CHIP_SRAM, MADV_DONTNEED);
    forget_run(chip);
    memset(chip->marks, 0, sizeof chip->marks);
    chip->taken = 0;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        chip->tiles[i].rows.count = 0;
    sim_chip_detach_all(chip);
}

static bool loadable(unsigned tile, uint32_t address, uint32_t size)
{
    return tile < IPU21_TILES && address >= IPU21_SRAM_BASE && address <= IPU21_SRAM_END &&
           size <= IPU21_SRAM_END - address;
}

bool sim_chip_write(struct sim_chip *chip, unsigned tile, uint32_t address, const void *data,
                    uint32_t size)
{
    if (!loadable(tile, address, size) || (size != 0 && address + size > IPU21_LOAD_END))
        return false;
    struct chip_tile *slot = &chip->tiles[tile];
    if (size == 0)
        return true;
    memcpy(chip->settle.ports[tile].sram + (address - IPU21_SRAM_BASE), data, size);
    if (address < IPU21_REGION1_BASE && slot->stop != CHIP_UNLOADED)
        sim_tile_touched(slot->tile, address, size);
    return true;
}

bool sim_chip_read(const struct sim_chip *chip, unsigned tile, uint32_t address, void *data,
                   uint32_t size)
{
    if (!loadable(tile, address, size))
        return false;
    memcpy(data, chip->settle.ports[tile].sram + (address - IPU21_SRAM_BASE), size);
    return true;
}

void sim_chip_declare_row(struct sim_chip *chip, unsigned tile, uint32_t address, uint32_t bytes,
                          uint32_t words)
{
    if (tile >= IPU21_TILES)
        return;
    struct settle_row *row = settle_push(&chip->tiles[tile].rows, sizeof *row);
    if (!row) {
        settle_no_memory(&chip->settle.ports[tile]);
        return;
    }
    *row = (struct settle_row){address, bytes, words};
    chip->tiles[tile].rows_sorted = false;
    chip->rows_changed = true;
}

static int by_address(const void *a, const void *b)
{
    const struct settle_row *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

void chip_install_rows(struct sim_chip *chip)
{
    chip->rows_changed = false;
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        struct chip_tile *slot = &chip->tiles[i];
        if (!slot->rows_sorted && slot->rows.count != 0)
            qsort(slot->rows.data, slot->rows.count, sizeof(struct settle_row), by_address);
        slot->rows_sorted = true;
        chip->settle.ports[i].rows = slot->rows.data;
        chip->settle.ports[i].row_count = slot->rows.count;
    }
}

void sim_chip_start(struct sim_chip *chip, uint32_t entry)
{
    forget_run(chip);
    chip_install_rows(chip);
    for (unsigned i = 0; i < IPU21_TILES; i++) {
        sim_tile_reset(chip->tiles[i].tile, entry, 0);
        chip_make_ready(chip, i);
    }
}

bool sim_chip_attach(struct sim_chip *chip, unsigned index, void *memory, uint64_t bytes)
{
    struct host *host = &chip->host;
    if (index != host->page_count || index >= HOST_MAX_PAGES || bytes == 0 ||
        bytes % HOST_PAGE != 0)
        return false;
    uint64_t offset = 0;
    if (index > 0)
        offset = host->pages[index - 1].offset + host->pages[index - 1].bytes;
    host->pages[index] = (struct host_page){memory, offset, bytes};
    host->page_count++;
    return true;
}

bool sim_chip_map(struct sim_chip *chip, unsigned index, void *memory, uint64_t offset,
                  uint64_t bytes)
{
    struct host *host = &chip->host;
    if (index >= HOST_MAX_PAGES)
        return false;
    for (; host->page_count <= index; host->page_count++)
        host->pages[host->page_count] = (struct host_page){0};
    host->pages[index] = (struct host_page){memory, offset, memory ? bytes : 0};
    return true;
}

void sim_chip_detach_all(struct sim_chip *chip)
{
    chip->host.page_count = 0;
}

void sim_chip_route(struct sim_chip *chip, uint64_t disabled, bool closed)
{
    chip->host.disabled = disabled;
    chip->host.closed = closed;
}

struct broadcast {
    struct sim_chip *chip;
    const void *data;
    uint32_t size;
};

/* A boot program is about to receive through the host window. Page by page the host's kernel would
 * take longer to give that memory than the load takes; where it cannot give it at once, it still
 * comes page by page. */
static void broadcast_tile(void *context, size_t tile)
{
    const struct broadcast *b = context;
    uint8_t *sram = b->chip->settle.ports[tile].sram;
    madvise(sram + (IPU21_HOST_WINDOW - IPU21_SRAM_BASE), IPU21_HOST_WINDOW_END - IPU21_HOST_WINDOW,
            MADV_POPULATE_WRITE);
    memcpy(sram, b->data, b->size);
}

void sim_chip_broadcast(struct sim_chip *chip, unsigned tiles, const void *data, uint32_t size)
{
    struct broadcast b = {chip, data, size};
    madvise(chip->sram, CHIP_SRAM, MADV_DONTNEED);
    sim_pool_run(chip->pool, tiles < IPU21_TILES ? tiles : IPU21_TILES, broadcast_tile, &b);
}

void sim_chip_stop_on_marks(struct sim_chip *chip)
{
    chip->stop_on_marks = true;
}

void sim_chip_set_mark(struct sim_chip *chip, unsigned which, uint16_t value)
{
    if (which == 1)
        chip->taken = 0;
    if (which == 1 || which == 2)
        chip->marks[which] = value;
}

uint16_t sim_chip_mark(const struct sim_chip *chip, unsigned which)
{
    if (which == 1 && chip->marks[1] == 0)
        return chip->taken;
    return which == 1 || which == 2 ? chip->marks[which] : 0;
}

const struct sim_fault *sim_chip_fault(const struct sim_chip *chip)
{
    return chip->faulted ? &chip->fault : NULL;
}

uint64_t sim_chip_cycle(const struct sim_chip *chip)
{
    uint64_t cycle = chip->release;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        if (chip->tiles[i].cycle > cycle)
            cycle = chip->tiles[i].cycle;
    return cycle;
}

uint64_t sim_chip_bundles(const struct sim_chip *chip)
{
    uint64_t bundles = 0;
    for (unsigned i = 0; i < IPU21_TILES; i++)
        bundles += sim_tile_bundles(chip->tiles[i].tile);
    return bundles;
}

struct sim_tile *sim_chip_tile(struct sim_chip *chip, unsigned logical)
{
    return chip->tiles[logical].tile;
}
