/* Scan of untrusted protobuf bytes: see scan.h.
 *
 * The walk keeps a stack of at most SCAN_MAX_DEPTH (end offset, descriptor) pairs. Every byte of
 * the input is looked at once, except payloads of bytes fields, which are skipped. Invariants: the
 * cursor never passes the end of the innermost message, and the end of a message never passes the
 * end of the one around it. Unknown fields are allowed (they come from newer clients) but counted.
 * It fails only through its result: nothing is allocated.
 */
#include "proto/scan.h"

#include "base/alloc.h"

#include <string.h>

const struct scan_limits scan_control_limits = {16, 4096, 64 << 10, 1 << 20};
const struct scan_limits scan_workload_limits = {SCAN_MAX_DEPTH, 4 << 20, (size_t)1 << 30,
                                                 (size_t)9 << 28};

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct level {
    size_t end;
    const ProtobufCMessageDescriptor *descriptor;
};

struct scan {
    const uint8_t *data;
    size_t at;
    size_t elements;
    unsigned depth; /* levels in use */
    const struct scan_limits *limits;
    struct ipu_error *error;
    struct level levels[SCAN_MAX_DEPTH];
};

struct key {
    uint32_t field;
    unsigned wire;
    size_t offset;
};

static const char *level_name(const struct scan *scan)
{
    return scan->levels[scan->depth - 1].descriptor->short_name;
}

static int bad(const struct scan *scan, const char *what)
{
    return ipu_error_set(scan->error, IPU_ERR_INVALID, "malformed message: %s at byte %zu (in %s)",
                         what, scan->at, level_name(scan));
}

static int over(const struct scan *scan, const char *what, size_t limit)
{
    return ipu_error_set(scan->error, IPU_ERR_LIMIT,
                         "malformed message: more than %zu %s at byte %zu (in %s)", limit, what,
                         scan->at, level_name(scan));
}

/* Reads a varint of at most ten bytes before `end`; false when it does not end there. */
static bool read_varint(const uint8_t *data, size_t *at, size_t end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = data[(*at)++];
        if (shift == 63 && byte > 1)
            return false;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool read_key(const uint8_t *data, size_t *at, size_t end, struct key *key)
{
    uint64_t value;
    key->offset = *at;
    if (!read_varint(data, at, end, &value) || value >> 3 == 0 || value >> 32 != 0)
        return false;
    key->field = (uint32_t)(value >> 3);
    key->wire = (unsigned)(value & 7);
    return true;
}

static unsigned wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

/* Length in bytes of the UTF-8 sequence at p, or 0 when it is none (overlong forms and surrogates
 * included). */
static size_t utf8_sequence(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80)
        return p[0] ? 1 : 0;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : n;
}

static bool text_valid(const uint8_t *p, size_t size)
{
    while (size) {
        size_t n = utf8_sequence(p, size);
        if (n == 0)
            return false;
        p += n;
        size -= n;
    }
    return true;
}

static int count(struct scan *scan, size_t more)
{
    if (more > scan->limits->elements - scan->elements)
        return over(scan, "elements", scan->limits->elements);
    scan->elements += more;
    return 0;
}

/* A packed repeated field: counts its elements. */
static int scan_packed(struct scan *scan, unsigned wire, size_t end)
{
    if (wire != WIRE_VARINT) {
        size_t size = wire == WIRE_FIXED32 ? 4 : 8;
        size_t length = end - scan->at;
        if (length % size)
            return bad(scan, "a packed field of broken length");
        scan->at = end;
        return count(scan, length / size);
    }
    while (scan->at < end) {
        uint64_t value;
        if (!read_varint(scan->data, &scan->at, end, &value))
            return bad(scan, "a varint that does not end");
        int rc = count(scan, 1);
        if (rc)
            return rc;
    }
    return 0;
}

static int scan_enter(struct scan *scan, const ProtobufCMessageDescriptor *descriptor, size_t end)
{
    unsigned cap = scan->limits->depth < SCAN_MAX_DEPTH ? scan->limits->depth : SCAN_MAX_DEPTH;
    if (scan->depth >= cap)
        return over(scan, "nested messages", cap);
    scan->levels[scan->depth++] = (struct level){end, descriptor};
    return 0;
}

/* A length-delimited field: enters a message, checks a string, counts a packed list, skips bytes.
 */
static int scan_bytes(struct scan *scan, const ProtobufCFieldDescriptor *field)
{
    size_t outer = scan->levels[scan->depth - 1].end;
    uint64_t length;
    if (!read_varint(scan->data, &scan->at, outer, &length))
        return bad(scan, "a length that does not end");
    if (length > outer - scan->at)
        return bad(scan, "a length past the end of its message");
    size_t end = scan->at + (size_t)length;
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
        return scan_enter(scan, field->descriptor, end);
    if (field && field->type == PROTOBUF_C_TYPE_STRING &&
        !text_valid(scan->data + scan->at, (size_t)length))
        return bad(scan, "a string that is not UTF-8 text");
    if (field && wire_of(field->type) != WIRE_BYTES)
        return scan_packed(scan, wire_of(field->type), end);
    scan->at = end;
    return 0;
}

static int scan_field(struct scan *scan)
{
    struct level *level = &scan->levels[scan->depth - 1];
    struct key key;
    if (!read_key(scan->data, &scan->at, level->end, &key))
        return bad(scan, "a broken field key");
    int rc = count(scan, 1);
    if (rc)
        return rc;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(level->descriptor, key.field);
    bool packable = field && field->label == PROTOBUF_C_LABEL_REPEATED &&
                    wire_of(field->type) != WIRE_BYTES && key.wire == WIRE_BYTES;
    if (field && key.wire != wire_of(field->type) && !packable)
        return bad(scan, "a field of another wire type than declared");
    uint64_t value;
    switch (key.wire) {
    case WIRE_VARINT:
        return read_varint(scan->data, &scan->at, level->end, &value)
                   ? 0
                   : bad(scan, "a varint that does not end");
    case WIRE_BYTES:
        return scan_bytes(scan, field);
    case WIRE_FIXED32:
    case WIRE_FIXED64: {
        size_t size = key.wire == WIRE_FIXED32 ? 4 : 8;
        if (level->end - scan->at < size)
            return bad(scan, "a number that is cut off");
        scan->at += size;
        return 0;
    }
    default:
        return bad(scan, "an unknown wire type");
    }
}

int scan_message(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                 const struct scan_limits *limits, struct ipu_error *error)
{
    struct scan scan = {.data = data, .limits = limits, .error = error, .depth = 1};
    scan.levels[0] = (struct level){size, descriptor};
    if (size > limits->bytes)
        return over(&scan, "bytes", limits->bytes);
    for (;;) {
        while (scan.depth && scan.at == scan.levels[scan.depth - 1].end)
            scan.depth--;
        if (scan.depth == 0)
            return 0;
        int rc = scan_field(&scan);
        if (rc)
            return rc;
    }
}

struct budget {
    size_t left;
    bool exhausted;
};

static void *budget_alloc(void *context, size_t size)
{
    struct budget *budget = context;
    if (size > budget->left) {
        budget->exhausted = true;
        return NULL;
    }
    budget->left -= size;
    return ipu_malloc(size);
}

static void budget_free(void *context, void *block)
{
    (void)context;
    ipu_free(block);
}

int scan_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                const struct scan_limits *limits, ProtobufCMessage **out, struct ipu_error *error)
{
    *out = NULL;
    int rc = scan_message(descriptor, data, size, limits, error);
    if (rc)
        return rc;
    struct budget budget = {limits->memory, false};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
    *out = protobuf_c_message_unpack(descriptor, &allocator, size, data);
    if (*out)
        return 0;
    if (budget.exhausted)
        return ipu_error_set(error, IPU_ERR_LIMIT,
                             "message %s would take more than %zu bytes of memory",
                             descriptor->short_name, limits->memory);
    return ipu_error_set(error, IPU_ERR_INVALID,
                         "malformed message: %s could not be unpacked (or memory ran out)",
                         descriptor->short_name);
}

void scan_free(ProtobufCMessage *message)
{
    if (!message)
        return;
    ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
    protobuf_c_message_free_unpacked(message, &allocator);
}

/* Steps over the value of a field of this wire type; for bytes reports the span. */
static bool skip_value(const uint8_t *data, size_t *at, size_t size, unsigned wire,
                       const uint8_t **span, size_t *length)
{
    uint64_t value;
    *span = NULL;
    *length = 0;
    if (wire == WIRE_VARINT)
        return read_varint(data, at, size, &value);
    if (wire == WIRE_BYTES) {
        if (!read_varint(data, at, size, &value) || value > size - *at)
            return false;
        *span = data + *at;
        *length = (size_t)value;
        *at += (size_t)value;
        return true;
    }
    size_t fixed = wire == WIRE_FIXED32 ? 4 : wire == WIRE_FIXED64 ? 8 : 0;
    if (fixed == 0 || size - *at < fixed)
        return false;
    *at += fixed;
    return true;
}

bool scan_find_bytes(const void *data, size_t size, uint32_t field, const uint8_t **span,
                     size_t *length)
{
    size_t at = 0;
    *span = NULL;
    *length = 0;
    while (at < size) {
        struct key key;
        const uint8_t *found;
        size_t found_length;
        if (!read_key(data, &at, size, &key) ||
            !skip_value(data, &at, size, key.wire, &found, &found_length))
            return false;
        if (key.field == field && found) {
            *span = found;
            *length = found_length;
        }
    }
    return true;
}
