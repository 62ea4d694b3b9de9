/* Reading configuration files: see configuration.h.
 *
 * Nothing is believed: the size must be what the count says, every offset a register of the window.
 * What the registers mean is the device's affair.
 */
#include "device/driver/configuration.h"

#include "base/alloc.h"
#include "device/ipu21/host.h"
#include "device/ipu21/topology.h"

#include <errno.h>
#include <string.h>

enum { HEADER_BYTES = 12, WRITE_BYTES = 8 };
static const uint8_t MAGIC[8] = {'I', 'P', 'U', 'C', 'F', 'G', '1', 0};

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static int check_header(const uint8_t *bytes, size_t size, const char *name, size_t *count,
                        struct ipu_error *error)
{
    if (size < HEADER_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "%s: this is no device configuration (it does not begin with IPUCFG1)",
                             name);
    *count = word_at(bytes + sizeof MAGIC);
    if (*count > CONFIGURATION_MAX_WRITES)
        return ipu_error_set(error, IPU_ERR_LIMIT,
                             "%s: the device configuration claims %zu register writes; at most %d "
                             "are taken",
                             name, *count, CONFIGURATION_MAX_WRITES);
    if (size != HEADER_BYTES + WRITE_BYTES * *count)
        return ipu_error_set(error, IPU_ERR_INVALID,
                             "%s: the device configuration of %zu register writes should have %zu "
                             "bytes and has %zu",
                             name, *count, HEADER_BYTES + WRITE_BYTES * *count, size);
    return 0;
}

static int check_write(const struct configuration_write *write, size_t index, const char *name,
                       struct ipu_error *error)
{
    if (write->offset % 4 == 0 && write->offset < IPU21_HOST_WINDOW_BYTES)
        return 0;
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "%s: register write %zu of the device configuration goes to 0x%x, which "
                         "is no register (multiples of 4 below 0x%x are)",
                         name, index, write->offset, IPU21_HOST_WINDOW_BYTES);
}

int configuration_read(const void *data, size_t size, const char *name, struct configuration *out,
                       struct ipu_error *error)
{
    const uint8_t *bytes = data;
    size_t count = 0;
    *out = (struct configuration){0};
    int code = check_header(bytes, size, name, &count, error);
    if (code != 0)
        return code;
    out->writes = ipu_malloc((count ? count : 1) * sizeof *out->writes);
    if (!out->writes)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "no memory for a device configuration");
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = bytes + HEADER_BYTES + WRITE_BYTES * i;
        out->writes[i] = (struct configuration_write){word_at(at), word_at(at + 4)};
        code = check_write(&out->writes[i], i, name, error);
        if (code != 0) {
            configuration_free(out);
            return code;
        }
    }
    out->count = count;
    return 0;
}

int configuration_read_file(const char *path, struct configuration *out, struct ipu_error *error)
{
    struct buffer file = {0};
    *out = (struct configuration){0};
    int code = buffer_read_file(&file, path,
                                HEADER_BYTES + (size_t)WRITE_BYTES * CONFIGURATION_MAX_WRITES);
    if (code == -EFBIG)
        code =
            ipu_error_set(error, IPU_ERR_LIMIT, "%s: too large for a device configuration", path);
    else if (code != 0)
        code = ipu_error_set(error, code == -ENOENT ? IPU_ERR_NOT_FOUND : IPU_ERR_IO,
                             "device configuration %s: %s", path, strerror(-code));
    else
        code = configuration_read(file.data, file.size, path, out, error);
    buffer_free(&file);
    return code;
}

void configuration_free(struct configuration *configuration)
{
    ipu_free(configuration->writes);
    *configuration = (struct configuration){0};
}

/* --- the simulated device's own --- */

static const struct configuration_write sim_writes[] = {
#define WRITE(offset, value) {(offset), (value)},
#include "device/driver/sim_configuration.def"
#undef WRITE
};

static void append_write(struct buffer *out, uint32_t offset, uint32_t value)
{
    buffer_append_u32(out, offset);
    buffer_append_u32(out, value);
}

void configuration_append_sim(struct buffer *out)
{
    size_t count = sizeof sim_writes / sizeof *sim_writes;
    buffer_append(out, MAGIC, sizeof MAGIC);
    buffer_append_u32(out, (uint32_t)(count + IPU21_TILES));
    for (size_t i = 0; i < count; i++)
        append_write(out, sim_writes[i].offset, sim_writes[i].value);
    for (unsigned tile = 0; tile < IPU21_TILES; tile++)
        append_write(out, IPU21_HOST_TDI_REGISTER(ipu21_physical(tile), IPU21_HOST_TDI_RBRK),
                     IPU21_HOST_RBRK_RESET);
}
