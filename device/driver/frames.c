/* Batches of frames: see frames.h.
 *
 * Frames of a tile are written in ascending order of their index, each the first time a segment
 * reaches it; segments are sorted and do not overlap, so only the last frame written can get more
 * bytes.
 */
#include "device/driver/frames.h"

#include "device/ipu21/memory.h"

#include <stddef.h>
#include <string.h>

enum { MINIMUM = (IPU21_IMAGE_MINIMUM + LOADER_PAYLOAD - 1) / LOADER_PAYLOAD };

static int check_entry(const struct package_segment *s, unsigned tile, struct ipu_error *error)
{
    uint32_t word = 0;
    if (s && s->address <= LOADER_ENTRY && LOADER_ENTRY + 4 - s->address <= s->size)
        memcpy(&word, s->data + (LOADER_ENTRY - s->address), 4);
    return word != 0 ? 0
                     : ipu_error_set(error, IPU_ERR_CORRUPT,
                                     "tile %u has no instruction at 0x%x, where the loader enters "
                                     "its image",
                                     tile, LOADER_ENTRY);
}

static int begin_tile(struct frames *frames, unsigned tile, size_t *next, struct ipu_error *error)
{
    size_t count, first = *next;
    const struct package_segment *segments = package_segments(frames->package, &count);
    const struct package_segment *entry = NULL;
    for (; *next < count && segments[*next].tile == tile; ++*next) {
        const struct package_segment *s = &segments[*next];
        if (s->address < LOADER_IMAGE)
            return ipu_error_set(error, IPU_ERR_CORRUPT,
                                 "tile %u: the segment at 0x%x lies below 0x%x, where the loader "
                                 "puts the first byte",
                                 tile, s->address, LOADER_IMAGE);
        if (s->address <= LOADER_ENTRY)
            entry = s;
    }
    frames->first[tile] = (uint32_t)first;
    return check_entry(entry, tile, error);
}

int frames_begin(struct frames *frames, const struct package *package, bool dense,
                 struct ipu_error *error)
{
    const struct package_info *info = package_get_info(package);
    size_t next = 0;
    frames->package = package;
    frames->dense = dense;
    if (info->entry != LOADER_ENTRY || info->final_mark > UINT16_MAX)
        return ipu_error_set(error, IPU_ERR_CORRUPT,
                             "the package starts at 0x%x with final mark %u; the loader starts "
                             "applications at 0x%x, and a mark has 16 bits",
                             info->entry, info->final_mark, LOADER_ENTRY);
    for (unsigned tile = 0; tile < IPU21_TILES; tile++) {
        int code = begin_tile(frames, tile, &next, error);
        if (code != 0)
            return code;
    }
    frames->first[IPU21_TILES] = (uint32_t)next;
    return 0;
}

/* --- writing --- */

/* Frames of one tile. */
struct writer {
    struct loader_frame *frames;
    uint32_t count;
    unsigned physical;
};

static struct loader_frame *frame_of(struct writer *w, uint32_t index)
{
    if (w->count != 0 && w->frames[w->count - 1].index == index)
        return &w->frames[w->count - 1];
    struct loader_frame *frame = &w->frames[w->count++];
    frame->index = index;
    frame->tile = w->physical;
    frame->flags = frame->zero = 0;
    memset(frame->payload, 0, sizeof frame->payload);
    memset(frame->trailer, 0xff, sizeof frame->trailer);
    return frame;
}

static void write_segment(struct writer *w, const struct package_segment *s)
{
    uint32_t at = s->address - LOADER_IMAGE;
    for (uint32_t done = 0, n; done < s->size; done += n, at += n) {
        uint32_t in_frame = at % LOADER_PAYLOAD, room = LOADER_PAYLOAD - in_frame;
        n = s->size - done < room ? s->size - done : room;
        memcpy(frame_of(w, at / LOADER_PAYLOAD)->payload + in_frame, s->data + done, n);
    }
}

static void fill_to(struct writer *w, uint32_t index)
{
    while (w->count < index)
        frame_of(w, w->count);
}

static void write_tile(const struct frames *frames, struct writer *w)
{
    size_t segment_count;
    const struct package_segment *segments = package_segments(frames->package, &segment_count);
    unsigned tile = ipu21_logical(w->physical);
    for (uint32_t i = frames->first[tile]; i < frames->first[tile + 1]; i++) {
        if (frames->dense)
            fill_to(w, (segments[i].address - LOADER_IMAGE) / LOADER_PAYLOAD);
        write_segment(w, &segments[i]);
    }
    if (frames->dense)
        fill_to(w, MINIMUM);
    w->frames[w->count - 1].flags = LOADER_LAST;
}

uint32_t frames_write(const struct frames *frames, unsigned batch, uint8_t *buffer)
{
    uint32_t used = LOADER_DESCRIPTOR_BYTES;
    memset(buffer, 0xff, LOADER_DESCRIPTOR_BYTES);
    for (unsigned i = 0; i < LOADER_SLOTS; i++) {
        struct writer w = {.frames = (struct loader_frame *)(void *)(buffer + used),
                           .physical = LOADER_SLOTS * batch + i};
        write_tile(frames, &w);
        struct loader_descriptor descriptor = {used, w.count};
        memcpy(buffer + sizeof descriptor * i, &descriptor, sizeof descriptor);
        used += w.count * (uint32_t)sizeof(struct loader_frame);
    }
    return used;
}
