/* Makes bad workloads and is a bad client, for the scripts beside it.
 *
 *   hostile workload KIND            writes a workload file to standard output (kinds: table below)
 *   hostile flip FILE OFFSET         inverts one bit of a file; a negative OFFSET counts from its
 * end hostile peer SOCKET huge-length  a frame of 2 GiB, as far as its header says hostile peer
 * SOCKET random       64 KiB that mean nothing hostile peer SOCKET mid-upload   half an upload;
 * then waits on standard input, to be killed hostile peer SOCKET never-read JOB   asks 60 times to
 * watch JOB; reads nothing until killed
 *
 * It stands alone: it writes protobuf's wire format and the frames of proto/rpc.proto by itself, so
 * that a fault in our writers cannot hide one in our readers. `peer` prints one line when it has
 * done its worst; exit status 3 means that the daemon did not behave as told in docs/PROTOCOL.md.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- protobuf --- */

struct bytes {
    size_t size, capacity;
    uint8_t *data;
};

static void put(struct bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            exit(1);
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_varint(struct bytes *b, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        put(b, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_number(struct bytes *b, unsigned field, uint64_t value)
{
    put_varint(b, field << 3);
    put_varint(b, value);
}

static void put_double(struct bytes *b, unsigned field, double value)
{
    put_varint(b, field << 3 | 1);
    put(b, &value, sizeof value);
}

static void put_bytes(struct bytes *b, unsigned field, const void *data, size_t size)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, size);
    put(b, data, size);
}

/* Appends `part` as a field and empties it. */
static void put_part(struct bytes *b, unsigned field, struct bytes *part)
{
    put_bytes(b, field, part->data, part->size);
    free(part->data);
    *part = (struct bytes){0};
}

/* --- workloads: y = x w, with one thing wrong --- */

enum { F16 = 2, F8_F143 = 3, INF16 = 0x7c00, NAN16 = 0x7e00, SEARCH_LONG_MS = 100000 };

struct recipe {
    const char *kind;
    unsigned rows, inner, inner2, columns;
    unsigned tiles;
    unsigned type;       /* of x and w */
    unsigned kind_field; /* of Operation: 3 = matmul */
    unsigned left;       /* id that the operation reads: 1 = x */
    unsigned poison;     /* f16 bits of the last element of x, which is then given raw; 0 = none */
    double tolerance;
    unsigned search_ms, compile_ms;
};

static const struct recipe recipes[] = {
    {"good", 17, 64, 64, 32, 64, F16, 3, 1, 0, 0, 0, 0},
    {"shape-mismatch", 3, 5, 4, 7, 64, F16, 3, 1, 0, 0, 0, 0},
    {"unknown-operation", 17, 64, 64, 32, 64, F16, 99, 1, 0, 0, 0, 0},
    {"f8", 17, 64, 64, 32, 64, F8_F143, 3, 1, 0, 0, 0, 0},
    {"dangling", 17, 64, 64, 32, 64, F16, 3, 77, 0, 0, 0, 0},
    {"cyclic", 17, 64, 64, 32, 64, F16, 3, 3, 0, 0, 0, 0},
    {"tiles-63", 17, 64, 64, 32, 63, F16, 3, 1, 0, 0, 0, 0},
    {"tiles-1536", 17, 64, 64, 32, 1536, F16, 3, 1, 0, 0, 0, 0},
    {"nan", 17, 64, 64, 32, 64, F16, 3, 1, NAN16, 0, 0, 0},
    {"infinity", 17, 64, 64, 32, 64, F16, 3, 1, INF16, 0, 0, 0},
    {"no-fit", 64, 8192, 8192, 8192, 64, F16, 3, 1, 0, 0, 0, 0},
    {"strict", 17, 64, 64, 32, 64, F16, 3, 1, 0, 1e-9, 0, 0},
    {"long", 729, 1152, 1152, 4304, 1472, F16, 3, 1, 0, 0, SEARCH_LONG_MS, 0},
    {"compile-timeout", 729, 1152, 1152, 4304, 1472, F16, 3, 1, 0, 0, SEARCH_LONG_MS, 100},
};

static void put_value(struct bytes *b, unsigned id, const char *name, unsigned rows,
                      unsigned columns, unsigned type)
{
    struct bytes value = {0}, shape = {0};
    put_number(&value, 1, id);
    put_bytes(&value, 2, name, strlen(name));
    put_varint(&shape, rows);
    put_varint(&shape, columns);
    put_part(&value, 3, &shape);
    put_number(&value, 4, type);
    put_part(b, 1, &value);
}

static void put_data(struct bytes *b, const struct recipe *r, unsigned seed)
{
    struct bytes data = {0}, generator = {0};
    put_number(&generator, 1, seed);
    size_t elements = (size_t)r->rows * r->inner;
    if (r->poison && seed == 1) {
        uint16_t *raw = calloc(elements, sizeof *raw);
        if (!raw)
            exit(1);
        raw[elements - 1] = (uint16_t)r->poison;
        put_bytes(&data, 1, raw, elements * sizeof *raw);
        free(raw);
        free(generator.data);
    } else {
        put_part(&data, 2, &generator);
    }
    put_part(b, 2, &data);
}

static void put_graph(struct bytes *file, const struct recipe *r)
{
    struct bytes graph = {0}, operation = {0}, result = {0}, matmul = {0};
    put_number(&result, 1, 3);
    put_bytes(&result, 2, "y", 1);
    put_bytes(&operation, 1, "up", 2);
    put_part(&operation, 2, &result);
    put_number(&matmul, 1, r->left);
    put_number(&matmul, 2, 2);
    put_part(&operation, r->kind_field, &matmul);
    put_part(&graph, 1, &operation);
    put_part(file, 5, &graph);
}

static void make_workload(struct bytes *file, const struct recipe *r)
{
    struct bytes part = {0};
    put_number(file, 1, 1);
    put_bytes(file, 2, r->kind, strlen(r->kind));
    put_value(&part, 1, "x", r->rows, r->inner, r->type);
    put_data(&part, r, 1);
    put_part(file, 3, &part);
    put_value(&part, 2, "w", r->inner2, r->columns, r->type);
    put_data(&part, r, 2);
    put_part(file, 4, &part);
    put_graph(file, r);
    put_number(file, 6, 3);
    put_number(&part, 1, r->tiles);
    put_double(&part, 4, r->tolerance);
    put_number(&part, 5, r->search_ms);
    put_number(&part, 6, r->compile_ms);
    put_part(file, 7, &part);
}

/* Workload.graph, then 10,000 times Region.operations, Operation.repeat, Repeat.body by turns. */
static void make_nested(struct bytes *file)
{
    static const unsigned fields[] = {1, 4, 10};
    struct bytes inner = {0};
    for (unsigned depth = 0; depth < 10000; depth++) {
        struct bytes outer = {0};
        put_part(&outer, fields[depth % 3], &inner);
        inner = outer;
    }
    put_number(file, 1, 1);
    put_part(file, 5, &inner);
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void make_random(struct bytes *file)
{
    uint32_t state = 2463534242u;
    for (unsigned i = 0; i < 16384; i++) {
        uint32_t word = next_random(&state);
        put(file, &word, sizeof word);
    }
}

static int write_workload(const char *kind)
{
    struct bytes file = {0};
    if (strcmp(kind, "nested") == 0)
        make_nested(&file);
    else if (strcmp(kind, "random") == 0)
        make_random(&file);
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        if (strcmp(kind, recipes[i].kind) == 0)
            make_workload(&file, &recipes[i]);
    if (file.size == 0)
        return 2;
    int rc = fwrite(file.data, 1, file.size, stdout) == file.size && fflush(stdout) == 0 ? 0 : 1;
    free(file.data);
    return rc;
}

static int flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET))
        return 1;
    int byte = fgetc(file);
    if (byte == EOF || fseek(file, -1, SEEK_CUR) || fputc(byte ^ 16, file) == EOF)
        return 1;
    return fclose(file) ? 1 : 0;
}

/* The store's layout: daemon/store_object.c, daemon/store_kinds.def (3 = kernel). */
static int damage(const char *path)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db,
                          "UPDATE chunks SET data = zeroblob(length(data)) WHERE (id >> 20) IN"
                          " (SELECT id FROM objects WHERE kind = 3)",
                          NULL, NULL, NULL);
    if (rc != SQLITE_OK || sqlite3_changes(db) == 0)
        fprintf(stderr, "no kernel damaged: %s\n", sqlite3_errmsg(db));
    rc = rc != SQLITE_OK || sqlite3_changes(db) == 0;
    sqlite3_close(db);
    return rc;
}

/* --- peers --- */

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof address.sun_path)
        exit(1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        exit(1);
    return fd;
}

/* False when the daemon has hung up. */
static int say(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            return 0;
        at += n;
        size -= (size_t)n;
    }
    return 1;
}

static int frame(int fd, unsigned type, uint32_t call, uint32_t length, const struct bytes *body)
{
    uint8_t header[12] = {0};
    for (unsigned i = 0; i < 4; i++) {
        header[i] = (uint8_t)(length >> 8 * i);
        header[8 + i] = (uint8_t)(call >> 8 * i);
    }
    header[4] = (uint8_t)type;
    return say(fd, header, sizeof header) && say(fd, body->data, body->size);
}

static void hello(int fd)
{
    struct bytes body = {0};
    put_number(&body, 1, 1);
    frame(fd, 1, 1, (uint32_t)body.size, &body);
    free(body.data);
}

/* Reads until the daemon hangs up; 3 when it does not within 5 s, or never said why (a
 * REPLY_ERROR).
 */
static int expect_refusal(int fd)
{
    struct timeval limit = {5, 0};
    uint8_t got[4096];
    size_t have = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (;;) {
        ssize_t n = recv(fd, got + have, sizeof got - have, 0);
        if (n < 0)
            return 3;
        if (n == 0)
            break;
        have += (size_t)n;
        if (have == sizeof got)
            return 3;
    }
    for (size_t at = 0; at + 12 <= have;) {
        uint32_t length = 0;
        memcpy(&length, got + at, sizeof length);
        if (got[at + 4] == 64)
            return puts("refused") < 0;
        at += 12 + (size_t)length;
    }
    return 3;
}

static int peer_huge(int fd)
{
    struct bytes nothing = {0};
    hello(fd);
    frame(fd, 5, 2, 0x80000000u, &nothing);
    return expect_refusal(fd);
}

static int peer_random(int fd)
{
    struct bytes noise = {0};
    make_random(&noise);
    say(fd, noise.data, noise.size);
    free(noise.data);
    /* What is unread when a socket closes makes the other end see a reset, which is a hang-up too.
     */
    struct timeval limit = {5, 0};
    uint8_t got[4096];
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (unsigned i = 0; i < 64; i++)
        if (recv(fd, got, sizeof got, 0) <= 0)
            return puts("refused") < 0;
    return 3;
}

static int peer_mid_upload(int fd)
{
    struct bytes begin = {0}, chunk = {0};
    hello(fd);
    put_number(&begin, 2, 1 << 20);
    frame(fd, 4, 2, (uint32_t)begin.size, &begin);
    make_random(&chunk);
    frame(fd, 5, 2, (uint32_t)chunk.size, &chunk);
    chunk.size /= 2; /* and a frame that will never be whole */
    frame(fd, 5, 2, (uint32_t)chunk.size * 2, &chunk);
    puts("uploading");
    fflush(stdout);
    getchar();
    return 0;
}

static int peer_never_read(int fd, uint64_t job)
{
    struct bytes watch = {0};
    hello(fd);
    put_number(&watch, 1, job);
    put_number(&watch, 3, 1);
    put_number(&watch, 5, 1);
    put_number(&watch, 6, 1);
    for (uint32_t call = 2; call < 62; call++)
        if (!frame(fd, 7, call, (uint32_t)watch.size, &watch))
            break;
    puts("asked");
    fflush(stdout);
    getchar();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "workload") == 0)
        return write_workload(argv[2]);
    if (argc == 4 && strcmp(argv[1], "flip") == 0)
        return flip(argv[2], strtol(argv[3], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "damage") == 0)
        return damage(argv[2]);
    if (argc < 4 || strcmp(argv[1], "peer") != 0)
        return 2;
    int fd = dial(argv[2]);
    if (strcmp(argv[3], "huge-length") == 0)
        return peer_huge(fd);
    if (strcmp(argv[3], "random") == 0)
        return peer_random(fd);
    if (strcmp(argv[3], "mid-upload") == 0)
        return peer_mid_upload(fd);
    if (strcmp(argv[3], "never-read") == 0 && argc == 5)
        return peer_never_read(fd, strtoull(argv[4], NULL, 10));
    return 2;
}
