/* The host page program of the self-test (selftest_programs.h): some tiles read their page, add a
 * key to every word and write it back, by the protocol of call.h.
 *
 * The tiles lie in both members of pairs, in different rows and columns; one owns the exchange
 * block of its column, two share a column. Packets are data: facts/host_protocol.md section 9.
 */
#include "device/driver/selftest_programs.h"

#include "device/driver/selftest_build.h"
#include "device/ipu21/exchange.h"
#include "device/ipu21/memory.h"
#include "device/ipu21/topology.h"

enum {
    TARGET_ROLE = 1, /* bits of a role */
    OWNER_ROLE = 2,
    PACKETS = 0x90000, /* of a tile: struct packets */
    STAGE = 0x50200,   /* the page */
    CLOSED = 0x50180,  /* dummy destination of a close */
    READ_BYTES = 1024,
    READS = PACKAGE_PAGE_BYTES / READ_BYTES,
    WRITE_BYTES = 256,
    WRITES = PACKAGE_PAGE_BYTES / WRITE_BYTES,
    LONG_UNIT = 64
};

/* The order of the words in the text below. */
struct packets {
    uint32_t mux, key;
    uint32_t grant[2];
    uint32_t reads[READS][2];
    uint32_t writes[WRITES][2];
    uint32_t close[2];
};

static const char TEXT[] = SELFTEST_HEAD "again:\n"
                                         "#if ROLE == 0\n"
                                         "    sans 1\n" /* the input batch, */
                                         "    sync 1\n"
                                         "    sans 1\n" /* the output batch */
                                         "    sync 1\n"
                                         "    bri again\n"
                                         "#else\n"
                                         "    setzi $m8, PACKETS\n"
                                         "    ld32 $m9, $m8, $mzero, 0\n"
                                         "    put $INCOMING_MUX, $m9\n"
                                         "#if ROLE & 2\n"
                                         "    sync 15\n"
                                         "    send 1, (PACKETS + 8) / 4, 3\n"
                                         "#else\n"
                                         "    sync 7\n"
                                         "#endif\n"
                                         "#if ROLE & 1\n"
                                         "    setzi $m0, PAGE_WORDS\n"
                                         "    put $INCOMING_DCOUNT, $m0\n"
                                         "    send 1, (PACKETS + 16) / 4, 3\n"
                                         "    .rept READS - 1\n"
                                         "    sendoff 1, 0, 3\n"
                                         "    .endr\n"
                                         "    sync 0\n"
                                         "#endif\n"
                                         "    sync 7\n"
                                         "    setzi $m0, 0x640\n"
                                         "    put $INCOMING_MUX, $m0\n"
                                         "#if ROLE & 1\n"
                                         "    ld32 $m5, $m8, $mzero, 1\n"
                                         "    setzi $m0, STAGE\n"
                                         "    setzi $m1, STAGE\n"
                                         "    setzi $m2, PAGE_WORDS - 1\n"
                                         "1:  ld32step $m3, $mzero, $m0+=, 1\n"
                                         "    add $m3, $m3, $m5\n"
                                         "    st32step $m3, $mzero, $m1+=, 1\n"
                                         "    brnzdec $m2, 1b\n"
                                         "#endif\n"
                                         "    put $INCOMING_MUX, $m9\n"
                                         "    sync 3\n"
                                         "#if ROLE & 2\n"
                                         "    send 1, (PACKETS + 8) / 4, 3\n"
                                         "#endif\n"
                                         "#if ROLE & 1\n"
                                         "    setzi $m0, 1\n"
                                         "    put $INCOMING_DCOUNT, $m0\n"
                                         "    .set at, PACKETS + 16 + 8 * READS\n"
                                         "    .set from, STAGE\n"
                                         "    .rept WRITES\n"
                                         "    send 1, at / 4, 3\n"
                                         "    send WRITE_WORDS - 1, from / 4, 3\n"
                                         "    .set at, at + 8\n"
                                         "    .set from, from + 4 * WRITE_WORDS\n"
                                         "    .endr\n"
                                         "    send 1, at / 4, 3\n"
                                         "    sync 0\n"
                                         "#endif\n"
                                         "    sync 7\n"
                                         "    setzi $m0, 0x640\n"
                                         "    put $INCOMING_MUX, $m0\n"
                                         "    bri again\n"
                                         "#endif\n";

static const uint16_t tiles[SELFTEST_PAGE_TILES] = {0, 1, 100, 741, 1001, IPU21_TILES - 1};

uint32_t selftest_key(unsigned index)
{
    return (index + 1) * UINT32_C(0x01020305);
}

static unsigned owner_of(unsigned tile)
{
    return ipu21_logical(ipu21_physical(tile) & 0x3d);
}

static void set_packet(uint32_t packet[2], uint32_t head, unsigned tile, uint32_t low,
                       uint32_t place)
{
    uint32_t id = ipu21_physical(tile);
    packet[0] = head | (id >> 1) << 16 | (id & 1) << 15 | low;
    packet[1] = (id & 1) << 31 | place;
}

/* `bytes` of the tile's page from `offset` on, as a long packet names them. */
static uint32_t place_of(unsigned tile, uint32_t offset, uint32_t bytes)
{
    uint32_t at = PACKAGE_PAGE_BYTES * (1 + tile) + offset;
    return at / LONG_UNIT << 4 | (bytes / LONG_UNIT & 15);
}

static void set_packets(struct packets *p, unsigned tile)
{
    for (uint32_t i = 0; i < READS; i++)
        set_packet(p->reads[i], i + 1 == READS ? 0xec000200u : 0xe0000200u, tile,
                   (STAGE - IPU21_HOST_WINDOW + READ_BYTES * i) >> 5,
                   place_of(tile, READ_BYTES * i, READ_BYTES));
    for (uint32_t i = 0; i < WRITES; i++)
        set_packet(p->writes[i], 0xa0000000u, tile, 0,
                   place_of(tile, WRITE_BYTES * i, WRITE_BYTES));
    set_packet(p->close, 0xcc000200u, tile, (CLOSED - IPU21_HOST_WINDOW) >> 5, 0);
}

static void set_grants(struct packets *p, unsigned owner)
{
    for (unsigned i = 0; i < SELFTEST_PAGE_TILES; i++) {
        unsigned id = ipu21_physical(tiles[i]), bit = 2 * (id / 64) + (id >> 1 & 1);
        if (owner_of(tiles[i]) == owner)
            p->grant[bit < 24 ? 0 : 1] |= 1u << (bit < 24 ? bit : bit - 24);
    }
}

static void add_packets(struct selftest_build *b, const uint8_t *roles)
{
    for (unsigned tile = 0; tile < IPU21_TILES; tile++) {
        struct packets p = {.mux = IPU21_MUX_HOST + (ipu21_physical(tile) & 0x3d)};
        if (roles[tile] == SELFTEST_IDLE)
            continue;
        for (unsigned i = 0; i < SELFTEST_PAGE_TILES; i++)
            if (tiles[i] == tile)
                p.key = selftest_key(i);
        set_packets(&p, tile);
        set_grants(&p, tile);
        selftest_add_data(b, tile, PACKETS, &p, sizeof p);
    }
}

static void add_tensor(struct selftest_build *b, const char *name, enum package_role role)
{
    static const uint8_t zeros[SELFTEST_PAGE_TILES * PACKAGE_PAGE_BYTES];
    struct package_tensor tensor = {.name = name,
                                    .role = role,
                                    .type = PACKAGE_U32,
                                    .rank = 2,
                                    .shape = {SELFTEST_PAGE_TILES, SELFTEST_PAGE_WORDS},
                                    .data = role == PACKAGE_INPUT ? zeros : NULL,
                                    .bytes = sizeof zeros};
    int index = package_add_tensor(b->package, &tensor);
    for (unsigned i = 0; i < SELFTEST_PAGE_TILES && index >= 0; i++) {
        struct package_nest nest = {.tile = tiles[i],
                                    .tensor = (uint16_t)index,
                                    .dims = 1,
                                    .host_offset = (uint64_t)i * SELFTEST_PAGE_WORDS};
        nest.dim[0].count = SELFTEST_PAGE_WORDS;
        nest.dim[0].host_stride = 1;
        nest.dim[0].stream_stride = 4;
        package_add_nest(b->package, PACKAGE_RUN, &nest);
    }
}

int selftest_program_pages(uint32_t flag_set, struct package **out, struct ipu_error *error)
{
    uint8_t roles[IPU21_TILES] = {0};
    struct selftest_defines extra[SELFTEST_ROLES] = {{.count = 0}};
    struct selftest_build b;
    for (unsigned i = 0; i < SELFTEST_PAGE_TILES; i++) {
        roles[tiles[i]] |= TARGET_ROLE;
        roles[owner_of(tiles[i])] |= OWNER_ROLE;
    }
    for (unsigned role = 0; role < SELFTEST_ROLES; role++) {
        selftest_define(&extra[role], "PACKETS", PACKETS);
        selftest_define(&extra[role], "STAGE", STAGE);
        selftest_define(&extra[role], "PAGE_WORDS", SELFTEST_PAGE_WORDS);
        selftest_define(&extra[role], "READS", READS);
        selftest_define(&extra[role], "WRITES", WRITES);
        selftest_define(&extra[role], "WRITE_WORDS", WRITE_BYTES / 4);
    }
    int code = selftest_begin(&b, "host pages", flag_set, error);
    b.info.batches_in[PACKAGE_RUN] = b.info.batches_out[PACKAGE_RUN] = 1;
    b.info.phases[PACKAGE_RUN] = 3;
    if (code == 0)
        code = selftest_make_roles(&b, TEXT, SELFTEST_ROLES, extra);
    if (code == 0) {
        selftest_place(&b, roles);
        add_packets(&b, roles);
        add_tensor(&b, "x", PACKAGE_INPUT);
        add_tensor(&b, "y", PACKAGE_OUTPUT);
    }
    return selftest_finish(&b, code, out);
}
