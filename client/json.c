/* Protobuf messages as JSON, by reflection over their descriptors: see command.h. Fields that are
 * unset members of a oneof and empty repeated fields are left out; everything else is printed, so
 * that scripts find every key. */
#include "client/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_string(struct buffer *out, const char *text)
{
    buffer_append(out, "\"", 1);
    for (const unsigned char *p = (const unsigned char *)(text ? text : ""); *p; p++) {
        if (*p == '"' || *p == '\\')
            buffer_printf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            buffer_printf(out, "\\u%04x", *p);
        else
            buffer_append(out, p, 1);
    }
    buffer_append(out, "\"", 1);
}

static void json_bytes(struct buffer *out, const ProtobufCBinaryData *b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    buffer_append(out, "\"", 1);
    for (size_t i = 0; i < b->len; i += 3) {
        unsigned value = (unsigned)b->data[i] << 16;
        value |= i + 1 < b->len ? (unsigned)b->data[i + 1] << 8 : 0;
        value |= i + 2 < b->len ? (unsigned)b->data[i + 2] : 0;
        char quad[4] = {digits[value >> 18], digits[value >> 12 & 63], digits[value >> 6 & 63],
                        digits[value & 63]};
        if (i + 1 >= b->len)
            quad[2] = '=';
        if (i + 2 >= b->len)
            quad[3] = '=';
        buffer_append(out, quad, 4);
    }
    buffer_append(out, "\"", 1);
}

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint32_t);
    }
}

static void json_double(struct buffer *out, double value)
{
    char text[32];
    if (!isfinite(value)) {
        buffer_printf(out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back the same */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buffer_append(out, text, strlen(text));
}

static void json_enum(struct buffer *out, const ProtobufCFieldDescriptor *f, int value)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(f->descriptor, value);
    if (named)
        json_string(out, named->name);
    else
        buffer_printf(out, "%d", value);
}

static void json_value(struct buffer *out, const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        buffer_printf(out, "%d", *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        buffer_printf(out, "%u", *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buffer_printf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buffer_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        json_double(out, (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        json_double(out, *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        buffer_printf(out, "%s", *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        json_enum(out, f, *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        json_string(out, *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        json_bytes(out, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        json_message(out, *(const ProtobufCMessage *const *)at);
        break;
    }
}

static void json_repeated(struct buffer *out, const ProtobufCFieldDescriptor *f, const char *base)
{
    size_t count = *(const size_t *)(const void *)(base + f->quantifier_offset);
    const char *items = *(const char *const *)(const void *)(base + f->offset);
    buffer_append(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append(out, ",", 1);
        json_value(out, f, items + i * element_size(f->type));
    }
    buffer_append(out, "]", 1);
}

static bool is_set(const ProtobufCFieldDescriptor *f, const char *base)
{
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + f->quantifier_offset) == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED)
        return *(const void *const *)(const void *)(base + f->offset) != NULL;
    return true;
}

void json_message(struct buffer *out, const ProtobufCMessage *message)
{
    const char *base = (const char *)message;
    bool first = true;
    buffer_append(out, "{", 1);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
        if (!is_set(f, base))
            continue;
        if (!first)
            buffer_append(out, ",", 1);
        first = false;
        json_string(out, f->name);
        buffer_append(out, ":", 1);
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            json_repeated(out, f, base);
        else
            json_value(out, f, base + f->offset);
    }
    buffer_append(out, "}", 1);
}
