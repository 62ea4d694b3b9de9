/* The geometric price of moving a value from one layout to the boxes that a step needs.
 *
 * Per tile: words received, words sent (a cell goes out once however many tiles hear it), runs at
 * both ports, and bytes copied locally. A box that lies inside one block of its own tile costs
 * nothing. The phase lasts as long as its busiest port. Uses the scratch arrays of the space:
 * traffic_reset(), any number of traffic_add(), traffic_cycles().
 */
#include "compiler/plan/internal.h"

#include <string.h>

void traffic_reset(struct space *s)
{
    uint32_t *const arrays[] = {s->receive, s->send, s->receive_runs, s->send_runs, s->copies};
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        memset(arrays[i], 0, sizeof(uint32_t) * s->tiles);
    s->unicast = false;
}

static uint32_t overlap(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1)
{
    uint32_t from = a0 > b0 ? a0 : b0, to = a1 < b1 ? a1 : b1;
    return to > from ? to - from : 0;
}

/* All (source part, needed part, length) with a common stretch. */
static void list_pairs(struct space *s, struct u32_list *list, const uint32_t *from, uint32_t nf,
                       const uint32_t *to, uint32_t nt)
{
    list->count = 0;
    for (uint32_t i = 0, j = 0; i < nf && j < nt;) {
        uint32_t length = overlap(from[i], from[i + 1], to[j], to[j + 1]);
        if (length > 0) {
            u32_push(s, list, i);
            u32_push(s, list, j);
            u32_push(s, list, length);
        }
        if (from[i + 1] < to[j + 1])
            i++;
        else
            j++;
    }
}

struct box {
    uint32_t row, row_end, panel, panel_end;
};

/* Cells of the box that tile t owns in `source`; *inside: one block holds the whole box. */
static uint32_t local_cells(const struct lay *source, uint32_t t, const struct box *box,
                            bool *inside)
{
    uint32_t cells = 0, whole = (box->row_end - box->row) * (box->panel_end - box->panel);
    *inside = false;
    for (uint32_t i = source->own_at[t]; i < source->own_at[t + 1]; i++) {
        uint32_t r = source->own[i] / source->np, p = source->own[i] % source->np;
        uint32_t common =
            overlap(source->row_cut[r], source->row_cut[r + 1], box->row, box->row_end) *
            overlap(source->panel_cut[p], source->panel_cut[p + 1], box->panel, box->panel_end);
        cells += common;
        *inside |= common == whole;
    }
    return cells < whole ? cells : whole;
}

bool traffic_local(const struct lay *source, const struct lay *need, uint32_t t)
{
    if (source == need)
        return true;
    for (uint32_t i = need->own_at[t]; i < need->own_at[t + 1]; i++) {
        uint32_t r = need->own[i] / need->np, p = need->own[i] % need->np;
        struct box box = {need->row_cut[r], need->row_cut[r + 1], need->panel_cut[p],
                          need->panel_cut[p + 1]};
        bool inside;
        local_cells(source, t, &box, &inside);
        if (!inside)
            return false;
    }
    return true;
}

/* Receives of one needed box on all its tiles; true when any of them misses something. */
static bool receive_box(struct space *s, const struct lay *source, const struct lay *need,
                        uint32_t cell, uint32_t words, uint32_t runs)
{
    uint32_t r = cell / need->np, p = cell % need->np;
    struct box box = {need->row_cut[r], need->row_cut[r + 1], need->panel_cut[p],
                      need->panel_cut[p + 1]};
    uint32_t whole = (box.row_end - box.row) * (box.panel_end - box.panel);
    bool remote = false;
    s->stamp_now++;
    for (uint32_t q = 0; q < need->reps; q++) {
        uint32_t t = need->tile[cell * need->reps + q];
        if (s->stamp[t] == s->stamp_now)
            continue;
        s->stamp[t] = s->stamp_now;
        bool inside;
        uint32_t local = local_cells(source, t, &box, &inside);
        if (inside)
            continue;
        if (local == whole) {
            s->copies[t] += local * words;
            continue;
        }
        /* What others hear anyway is heard by its owner too; else it is copied. */
        bool hears = need->reps > 1;
        s->copies[t] += hears ? 0 : local * words;
        s->receive[t] += (whole - (hears ? 0 : local)) * words;
        s->receive_runs[t] += runs;
        remote = true;
    }
    return remote;
}

/* Source row parts that each needed row part meets, and whether that is exactly one equal part. */
static uint32_t runs_of(const struct lay *source, const struct lay *need, uint32_t r, uint32_t p,
                        uint32_t rows_met, uint32_t panels_met)
{
    bool whole_rows = rows_met == 1;
    if (whole_rows) {
        uint32_t lo = 0, hi = source->nr;
        while (hi - lo > 1) {
            uint32_t mid = (lo + hi) / 2;
            if (source->row_cut[mid] <= need->row_cut[r])
                lo = mid;
            else
                hi = mid;
        }
        whole_rows = source->row_cut[lo] == need->row_cut[r] &&
                     source->row_cut[lo + 1] == need->row_cut[r + 1];
    }
    return whole_rows ? panels_met : rows_met * (need->panel_cut[p + 1] - need->panel_cut[p]);
}

static uint32_t parts_met(const struct u32_list *pairs, uint32_t *at, uint32_t part)
{
    uint32_t met = 0;
    while (*at < pairs->count && pairs->at[*at + 1] == part) {
        met++;
        *at += 3;
    }
    return met;
}

static void add_receives(struct space *s, const struct lay *source, const struct lay *need,
                         uint32_t words)
{
    s->remote.count = 0;
    s->unicast |= need->reps == 1;
    uint32_t row_at = 0;
    for (uint32_t r = 0; r < need->nr; r++) {
        uint32_t rows_met = parts_met(&s->pairs_r, &row_at, r), panel_at = 0;
        for (uint32_t p = 0; p < need->np; p++) {
            uint32_t panels_met = parts_met(&s->pairs_p, &panel_at, p);
            uint32_t runs = runs_of(source, need, r, p, rows_met, panels_met);
            u32_push(s, &s->remote, receive_box(s, source, need, r * need->np + p, words, runs));
        }
    }
}

static void add_sends(struct space *s, const struct lay *source, const struct lay *need,
                      uint32_t words)
{
    const struct u32_list *rows = &s->pairs_r, *panels = &s->pairs_p;
    for (uint32_t i = 0; i < rows->count; i += 3)
        for (uint32_t j = 0; j < panels->count; j += 3) {
            uint32_t cell = rows->at[i + 1] * need->np + panels->at[j + 1];
            if (!s->remote.at[cell])
                continue;
            uint32_t from = rows->at[i] * source->np + panels->at[j];
            uint32_t owner = source->tile[from * source->reps + cell % source->reps];
            s->send[owner] += rows->at[i + 2] * panels->at[j + 2] * words;
            s->send_runs[owner]++;
        }
}

void traffic_add(struct space *s, const struct lay *source, const struct lay *need, uint32_t words)
{
    if (source == need || s->oom)
        return;
    list_pairs(s, &s->pairs_r, source->row_cut, source->nr, need->row_cut, need->nr);
    list_pairs(s, &s->pairs_p, source->panel_cut, source->np, need->panel_cut, need->np);
    if (s->oom)
        return;
    add_receives(s, source, need, words);
    if (!s->oom)
        add_sends(s, source, need, words);
    uint64_t work = (uint64_t)need->nr * need->np * need->reps +
                    (uint64_t)(s->pairs_r.count / 3) * (s->pairs_p.count / 3) + s->tiles / 4;
    s->units += 1 + work / 256;
}

uint32_t traffic_cycles(struct space *s, uint32_t *copy_cycles)
{
    uint64_t words = 0, copied = 0, receives = 0;
    uint32_t runs = 0;
    for (uint32_t t = 0; t < s->tiles; t++) {
        words = s->receive[t] > words ? s->receive[t] : words;
        words = s->send[t] > words ? s->send[t] : words;
        runs = s->receive_runs[t] > runs ? s->receive_runs[t] : runs;
        runs = s->send_runs[t] > runs ? s->send_runs[t] : runs;
        copied = s->copies[t] > copied ? s->copies[t] : copied;
        receives += s->receive_runs[t];
    }
    *copy_cycles = plan_cost_copy((uint32_t)(copied * 4 > UINT32_MAX ? UINT32_MAX : copied * 4));
    uint64_t cycles = plan_cost_phase(words, runs, s->unicast);
    if (receives > PLAN_RECEIVES_FREE)
        cycles += (receives - PLAN_RECEIVES_FREE) / PLAN_RECEIVES_PER_CYCLE;
    return cycles > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)cycles;
}
