/* Route arithmetic: see topology.h. The constants are those of facts/exchange.md section 2, which
 * reproduce the vendor vectors. */
#include "device/ipu21/topology.h"

unsigned ipu21_physical(unsigned logical)
{
    unsigned pair = logical / 2, lane = logical % 2, block = pair / 23, r = pair % 23;
    if (block & 1)
        r = 22 - r;
    unsigned column = (block / 2) * 4 + block % 2;
    return 64 * r + column + 2 * lane;
}

unsigned ipu21_logical(unsigned physical)
{
    unsigned r = physical >> 6, column = physical & 63, lane = (column >> 1) & 1;
    column &= ~2u;
    unsigned block = (column / 4) * 2 + column % 4;
    if (block & 1)
        r = 22 - r;
    return (block * 23 + r) * 2 + lane;
}

static int fold(unsigned x)
{
    return x <= 7 ? (int)x : 15 - (int)x;
}

int ipu21_displacement(unsigned s, unsigned d)
{
    unsigned sr = (s >> 2) & 15, dr = (d >> 2) & 15;
    int base = 6 * (fold(dr) - fold(sr) - (int)((sr >> 3) ^ (s & 1)));
    if ((d & 3) >= 2)
        return base + ((dr >> 3) == (d & 1) ? 2 : 4);
    return base + ((dr >> 3) == (d & 3) ? 1 : 5);
}

unsigned ipu21_direction(unsigned s, unsigned d)
{
    return ipu21_displacement(s, d) < 1 ? 2 : 1;
}

int ipu21_ttm(unsigned s, unsigned d)
{
    unsigned sr = (s >> 2) & 15, dr = (d >> 2) & 15, sl = sr & 7;
    int displacement = ipu21_displacement(s, d);
    int cross = (int)((sr & 8) | (sl >> 1)) - (int)dr + (int)((sl >> 1) ^ 3);
    int turn = ((s ^ d) & 0x20) == 0 ? (int)sl + 1 : 16 - (int)sl;
    int rows = (int)ipu21_row(s) - (int)ipu21_row(d);
    int size = displacement < 0 ? -displacement : displacement;
    return cross + 4 * fold(sr) + turn - 4 * fold(dr) + 2 * rows + size - 34;
}

int ipu21_ttm_pair(unsigned s, unsigned d)
{
    int own = ipu21_ttm(s, d), partner = ipu21_ttm(s, d ^ 2);
    return own > partner ? own : partner;
}

int ipu21_latency(unsigned s, unsigned d)
{
    return ipu21_ttm(s, d) + 53 + 2 * (int)ipu21_row(d);
}
