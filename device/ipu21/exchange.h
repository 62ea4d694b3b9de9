/* Encodings, limits and special values of exchange instructions. Source: facts/exchange.md sections
 * 3, 4, 6. */
#ifndef IPU_IPU21_EXCHANGE_H
#define IPU_IPU21_EXCHANGE_H

#include <stdint.h>

enum {
    IPU21_MUX_NEUTRAL = 0x640,
    IPU21_MUX_HOST = 0x600, /* + (id & 0x3f & ~2): the exchange block of the tile's column */
    IPU21_SEND_BOTH = 3,    /* both directions: multicast, host packets */
    IPU21_SEND_64 = 4,      /* 64-bit items */
    IPU21_MAX_SEND = 64,    /* words of one send */
    IPU21_MAX_SENDOFF = 4096,
    IPU21_MAX_DELAY = 524288,
    IPU21_MAX_DELAYPIC = 128,
    IPU21_MAX_DELAYXPIC = 4096,
    IPU21_MAX_TRANSFER = 4148, /* words of one transfer */
    IPU21_RECEIVE_GUARD = 5,   /* events after the last stored word */
    IPU21_CSR_INCOMING_MUX = 0xa0,
    IPU21_CSR_INCOMING_MUXPAIR = 0xa1,
    IPU21_CSR_INCOMING_FORMAT = 0xa3,
    IPU21_CSR_INCOMING_BASE = 0xa4,
    IPU21_CSR_INCOMING_DCOUNT = 0xa6,
    IPU21_CSR_OUTGOING_BASE = 0xa7,
    IPU21_ZONE_RECEIVE = 0,
    IPU21_ZONE_ANS = 1,
    IPU21_ZONE_LOCAL = 2,
    IPU21_ZONE_INTERNAL = 3,
    IPU21_ZONE_HOST = 7,        /* GS2H, slave */
    IPU21_ZONE_HOST_MASTER = 15 /* GS2H, master */
};

/* All counts are in events (1..maximum); the encoded field is events - 1. Word addresses are byte
 * >> 2. */
static inline uint32_t ipu21_delay(uint32_t events)
{
    return 0x40a00000u | (events - 1);
}
static inline uint32_t ipu21_delaypic(uint32_t events, uint32_t sel, uint32_t value)
{
    return 0x60000000u | (events - 1) << 19 | sel << 18 | value;
}
static inline uint32_t ipu21_delayxpic(uint32_t events, uint32_t sel, uint32_t value)
{
    return 0x64000000u | (events - 1) << 14 | sel << 13 | value;
}
static inline uint32_t ipu21_send(uint32_t items, uint32_t item_address, uint32_t control)
{
    return 0x78000000u | (items - 1) << 21 | item_address << 3 | control;
}
static inline uint32_t ipu21_sendoff(uint32_t items, uint32_t delta, uint32_t control)
{
    return 0x70000000u | ((items - 1) & 63) << 21 | ((items - 1) >> 6) << 14 | delta << 3 | control;
}
/* sel2: 0, 1 = XPIC selectors 0, 1; 2, 3 = PIC selectors 0, 1. */
static inline uint32_t ipu21_sendpic(uint32_t items, uint32_t sel2, uint32_t value)
{
    return 0x70100000u | (items - 1) << 21 | sel2 << 18 | value;
}
static inline uint32_t ipu21_sendpicp0(uint32_t items, uint32_t item_address, uint32_t control,
                                       uint32_t pic_sel)
{
    return 0xf0000000u | pic_sel << 27 | (items - 1) << 21 | item_address << 3 | control;
}
static inline uint32_t ipu21_sendpicp1(uint32_t xpic14, uint32_t pic18)
{
    return xpic14 << 18 | pic18;
}
static inline uint32_t ipu21_sync(uint32_t zone)
{
    return 0x41800000u | zone;
}
static inline uint32_t ipu21_sans(uint32_t count)
{
    return 0x40c00000u | count;
}
static inline uint32_t ipu21_br(uint32_t m)
{
    return 0x43000000u | m << 20;
}
static inline uint32_t ipu21_call(uint32_t m, uint32_t byte_address)
{
    return 0x18000000u | m << 20 | byte_address >> 2;
}
static inline uint32_t ipu21_setzi(uint32_t m, uint32_t value)
{
    return 0x19000000u | m << 20 | (value & 0xfffff);
}
static inline uint32_t ipu21_put(uint32_t csr, uint32_t m)
{
    return 0x43008000u | m << 20 | csr;
}
static inline uint32_t ipu21_add(uint32_t d, uint32_t s, uint32_t simm16)
{
    return 0x22000000u | s << 20 | d << 16 | (simm16 & 0xffff);
}
static inline uint32_t ipu21_brnzdec(uint32_t m, uint32_t byte_address)
{
    return 0x13080000u | m << 20 | byte_address >> 2;
}
static inline uint32_t ipu21_trap(uint32_t n)
{
    return 0x41801000u | n;
}
enum { IPU21_NOP = 0x19e00000 };

#endif
