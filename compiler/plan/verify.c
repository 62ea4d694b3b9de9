/* plan_verify(): checks a plan against its flow without any structure of the search.
 *
 * Every cell of every GEMM result is covered by jobs that split the inner range exactly once in
 * `inner_parts` parts; layouts cover every cell; tiles, ranges and order are legal; elementwise
 * layouts have the result's shape; the bytes that the plan certainly needs fit the tile. Cells are
 * checked on the grid of all cuts that occur, so the cost does not grow with the matrix.
 */
#include "compiler/plan/internal.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct cuts {
    uint32_t *at;
    uint32_t count; /* of cut points; parts are one fewer */
};

struct verifier {
    const struct flow *flow;
    const struct plan *plan;
    struct ipu_error *error;
    const struct plan_op *op; /* under check, for messages */
    uint64_t *bytes;          /* by tile: certain need */
};

static int bad(const struct verifier *v, const char *what)
{
    return ipu_error_set(v->error, IPU_ERR_INTERNAL, "plan: region %u operation %u: %s",
                         v->op->region, v->op->op, what);
}

static int compare_u32(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

static void cuts_close(struct cuts *cuts)
{
    if (cuts->count == 0)
        return;
    qsort(cuts->at, cuts->count, sizeof *cuts->at, compare_u32);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < cuts->count; i++)
        if (cuts->at[i] != cuts->at[kept - 1])
            cuts->at[kept++] = cuts->at[i];
    cuts->count = kept;
}

static uint32_t cuts_index(const struct cuts *cuts, uint32_t at)
{
    const uint32_t *found = bsearch(&at, cuts->at, cuts->count, sizeof at, compare_u32);
    return (uint32_t)(found - cuts->at);
}

/* A rectangle of cells with a weight; the grid sums weights over what each rectangle covers. */
struct patch {
    uint32_t row, rows, panel, panels, weight;
};

struct cover {
    struct cuts rows, panels;
    uint64_t *sum; /* (rows.count - 1) x (panels.count - 1) */
};

static void cover_free(struct cover *cover)
{
    ipu_free(cover->rows.at);
    ipu_free(cover->panels.at);
    ipu_free(cover->sum);
}

/* Differences at the corners of each rectangle, then running sums: linear in patches and cuts. */
static bool cover_build(struct cover *cover, const struct patch *patches, uint32_t count)
{
    memset(cover, 0, sizeof *cover);
    cover->rows.at = ipu_calloc(2 * (size_t)count + 1, sizeof(uint32_t));
    cover->panels.at = ipu_calloc(2 * (size_t)count + 1, sizeof(uint32_t));
    if (cover->rows.at == NULL || cover->panels.at == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        cover->rows.at[cover->rows.count++] = patches[i].row;
        cover->rows.at[cover->rows.count++] = patches[i].row + patches[i].rows;
        cover->panels.at[cover->panels.count++] = patches[i].panel;
        cover->panels.at[cover->panels.count++] = patches[i].panel + patches[i].panels;
    }
    cuts_close(&cover->rows);
    cuts_close(&cover->panels);
    size_t width = cover->panels.count;
    cover->sum = ipu_calloc((size_t)cover->rows.count * width, sizeof(uint64_t));
    if (cover->sum == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        size_t r0 = cuts_index(&cover->rows, patches[i].row);
        size_t r1 = cuts_index(&cover->rows, patches[i].row + patches[i].rows);
        size_t p0 = cuts_index(&cover->panels, patches[i].panel);
        size_t p1 = cuts_index(&cover->panels, patches[i].panel + patches[i].panels);
        cover->sum[r0 * width + p0] += patches[i].weight;
        cover->sum[r0 * width + p1] -= patches[i].weight;
        cover->sum[r1 * width + p0] -= patches[i].weight;
        cover->sum[r1 * width + p1] += patches[i].weight;
    }
    for (size_t r = 0; r < cover->rows.count; r++)
        for (size_t p = 1; p < width; p++)
            cover->sum[r * width + p] += cover->sum[r * width + p - 1];
    for (size_t r = 1; r < cover->rows.count; r++)
        for (size_t p = 0; p < width; p++)
            cover->sum[r * width + p] += cover->sum[(r - 1) * width + p];
    return true;
}

/* Whether the patches span exactly rows x panels and every cell weighs `exact` (or, with exact 0,
 * at least one). */
static bool cover_complete(const struct cover *cover, uint64_t rows, uint64_t panels,
                           uint64_t exact)
{
    uint32_t nr = cover->rows.count, np = cover->panels.count;
    if (nr < 2 || np < 2 || cover->rows.at[0] != 0 || cover->panels.at[0] != 0 ||
        cover->rows.at[nr - 1] != rows || cover->panels.at[np - 1] != panels)
        return false;
    for (uint32_t r = 0; r + 1 < nr; r++)
        for (uint32_t p = 0; p + 1 < np; p++) {
            uint64_t sum = cover->sum[(size_t)r * np + p];
            if (exact ? sum != exact : sum == 0)
                return false;
        }
    return true;
}

static int check_cover(const struct verifier *v, const struct patch *patches, uint32_t count,
                       uint64_t rows, uint64_t panels, uint64_t exact, const char *what)
{
    struct cover cover;
    int status = 0;
    if (!cover_build(&cover, patches, count))
        status = ipu_error_set(v->error, IPU_ERR_NO_MEMORY, "plan: no memory to verify");
    else if (!cover_complete(&cover, rows, panels, exact))
        status = bad(v, what);
    cover_free(&cover);
    return status;
}

static int check_block(const struct verifier *v, const struct plan_layout *layout, uint32_t i,
                       uint64_t rows, uint64_t panels)
{
    const struct plan_block *b = &layout->blocks[i], *prev = &layout->blocks[i ? i - 1 : 0];
    if (b->tile >= v->flow->tiles)
        return bad(v, "a block lies on a tile past the execution tiles");
    if (b->rows == 0 || b->panels == 0 || (uint64_t)b->row + b->rows > rows ||
        (uint64_t)b->panel + b->panels > panels)
        return bad(v, "a block is empty or reaches past the value");
    if (i == 0)
        return 0;
    bool later = b->tile != prev->tile ? b->tile > prev->tile
                 : b->row != prev->row ? b->row > prev->row
                                       : b->panel > prev->panel;
    return later ? 0 : bad(v, "blocks are not sorted by tile, row and panel");
}

static int check_layout(struct verifier *v, const struct plan_layout *layout, uint64_t rows,
                        uint64_t panels, uint64_t cell_bytes)
{
    if (layout->count == 0)
        return bad(v, "the result has no layout");
    struct patch *patches = ipu_calloc(layout->count, sizeof *patches);
    if (patches == NULL)
        return ipu_error_set(v->error, IPU_ERR_NO_MEMORY, "plan: no memory to verify");
    int status = 0;
    for (uint32_t i = 0; i < layout->count && status == 0; i++) {
        const struct plan_block *b = &layout->blocks[i];
        status = check_block(v, layout, i, rows, panels);
        patches[i] = (struct patch){b->row, b->rows, b->panel, b->panels, 1};
        if (status == 0 && (uint64_t)b->rows * b->panels * cell_bytes > PLAN_TILE_MOST)
            status = bad(v, "a block of the result is larger than a tile");
    }
    if (status == 0)
        status = check_cover(v, patches, layout->count, rows, panels, 0,
                             "the layout leaves cells of the result without owner");
    ipu_free(patches);
    return status;
}

static int check_job(const struct verifier *v, const struct flow_op *f, uint32_t i)
{
    const struct plan_gemm_job *j = &v->op->jobs[i];
    const struct flow_tensor *a = &v->flow->tensors[f->a], *out = &v->flow->tensors[f->out];
    uint64_t batch = f->batch > 1 ? f->batch : 1, rows = out->rows / batch;
    if (j->tile >= v->flow->tiles)
        return bad(v, "a job lies on a tile past the execution tiles");
    if (j->rows == 0 || j->inners == 0 || j->panels == 0)
        return bad(v, "a job is empty");
    if (j->batch >= batch || j->row < j->batch * rows || j->row + j->rows > (j->batch + 1) * rows)
        return bad(v, "a job's rows leave its batch");
    if ((uint64_t)j->inner + j->inners > plan_panels(a->columns) ||
        (uint64_t)j->panel + j->panels > plan_panels(out->columns))
        return bad(v, "a job reaches past its operands");
    return 0;
}

static int compare_inner(const void *x, const void *y)
{
    const struct plan_gemm_job *a = *(const struct plan_gemm_job *const *)x;
    const struct plan_gemm_job *b = *(const struct plan_gemm_job *const *)y;
    return a->inner < b->inner ? -1 : a->inner > b->inner;
}

/* Each cell is met by inner_parts jobs; for each distinct inner range the jobs cover all cells
 * once; and the ranges follow one another over all of K. Together: an exact partition. */
static int check_inner(const struct verifier *v, const struct plan_gemm_job **jobs,
                       struct patch *patches, uint64_t rows, uint64_t panels, uint64_t inners)
{
    const struct plan_op *op = v->op;
    uint32_t parts = 0;
    uint64_t reached = 0;
    for (uint32_t i = 0, next; i < op->job_count; i = next) {
        for (next = i; next < op->job_count && jobs[next]->inner == jobs[i]->inner; next++) {
            const struct plan_gemm_job *j = jobs[next];
            if (j->inners != jobs[i]->inners)
                return bad(v, "jobs of one inner part differ in their inner range");
            patches[next - i] = (struct patch){j->row, j->rows, j->panel, j->panels, 1};
        }
        if (jobs[i]->inner != reached)
            return bad(v, "inner parts overlap or leave a gap");
        reached += jobs[i]->inners;
        parts++;
        int status = check_cover(v, patches, next - i, rows, panels, 1,
                                 "jobs do not cover each cell exactly once in an inner part");
        if (status != 0)
            return status;
    }
    if (reached != inners || parts != op->inner_parts)
        return bad(v, "the inner parts do not make up the inner size");
    return 0;
}

static int check_final(const struct verifier *v)
{
    const struct plan_op *op = v->op;
    uint32_t widest = 0;
    for (uint32_t i = 0; i < op->job_count; i++)
        widest = op->jobs[i].inners > widest ? op->jobs[i].inners : widest;
    if (op->chunk == 0 || op->chunk > PLAN_CHUNK_PANELS)
        return bad(v, "a partial sums too many inner panels for f16");
    if (op->row_passes == 0 || op->panel_passes == 0)
        return bad(v, "a product has no passes");
    if (op->inner_parts > 1 || widest > op->chunk)
        return 0;
    if (op->out.count != op->job_count)
        return bad(v, "a final product does not stay where it is computed");
    for (uint32_t i = 0; i < op->job_count; i++) {
        const struct plan_gemm_job *j = &op->jobs[i];
        const struct plan_block *b = &op->out.blocks[i];
        if (j->tile != b->tile || j->row != b->row || j->rows != b->rows || j->panel != b->panel ||
            j->panels != b->panels)
            return bad(v, "a final product does not stay where it is computed");
    }
    return 0;
}

static int check_gemm(struct verifier *v, const struct flow_op *f)
{
    const struct plan_op *op = v->op;
    const struct flow_tensor *a = &v->flow->tensors[f->a], *out = &v->flow->tensors[f->out];
    if (op->job_count == 0)
        return bad(v, "a matmul has no jobs");
    const struct plan_gemm_job **jobs = ipu_calloc(op->job_count, sizeof *jobs);
    struct patch *patches = ipu_calloc(op->job_count, sizeof *patches);
    int status = 0;
    if (jobs == NULL || patches == NULL)
        status = ipu_error_set(v->error, IPU_ERR_NO_MEMORY, "plan: no memory to verify");
    for (uint32_t i = 0; jobs != NULL && i < op->job_count && status == 0; i++) {
        status = check_job(v, f, i);
        jobs[i] = &op->jobs[i];
    }
    if (status == 0) {
        qsort(jobs, op->job_count, sizeof *jobs, compare_inner);
        status = check_inner(v, jobs, patches, out->rows, plan_panels(out->columns),
                             plan_panels(a->columns));
    }
    if (status == 0)
        status = check_final(v);
    ipu_free(jobs);
    ipu_free(patches);
    return status;
}

/* Bytes that no lowering can avoid: weights of host matmuls and the largest live results. */
static void count_bytes(struct verifier *v, const struct flow_op *f)
{
    const struct plan_op *op = v->op;
    enum flow_source source = v->flow->tensors[f->b].source;
    bool weights = f->kind == FLOW_GEMM && (source == FLOW_PARAMETER || source == FLOW_INPUT);
    for (uint32_t i = 0; weights && i < op->job_count; i++)
        v->bytes[op->jobs[i].tile] += 512ull * op->jobs[i].inners * op->jobs[i].panels;
}

static int check_staged(struct verifier *v, const struct flow_op *f)
{
    const struct flow_tensor *a = &v->flow->tensors[f->a];
    if (f->kind != FLOW_GEMM || (a->source != FLOW_PARAMETER && a->source != FLOW_INPUT))
        return bad(v, "only a host tensor that a matmul reads can be staged");
    return check_layout(v, &v->op->staged, a->rows, plan_panels(a->columns), 32);
}

static int check_op(struct verifier *v, uint32_t index)
{
    const struct flow_op *f = &v->flow->regions[v->op->region].ops[v->op->op];
    if (f->kind == FLOW_REPEAT)
        return 0;
    const struct flow_tensor *out = &v->flow->tensors[f->out];
    const struct plan_op *before = index > 0 ? &v->plan->ops[index - 1] : NULL;
    if (before != NULL && before->fused_next && before->region == v->op->region) {
        if (f->kind != FLOW_GELU && f->kind != FLOW_RELU)
            return bad(v, "only gelu or relu can join an addition");
        return v->op->out.count == 0 ? 0 : bad(v, "a fused operation has a layout of its own");
    }
    int status = check_layout(v, &v->op->out, out->rows, plan_panels(out->columns),
                              out->type == FLOW_F32 ? 64 : 32);
    if (status == 0 && f->kind == FLOW_GEMM)
        status = check_gemm(v, f);
    if (status == 0 && v->op->staged.count > 0)
        status = check_staged(v, f);
    if (status == 0)
        count_bytes(v, f);
    return status;
}

static int check_identity(struct verifier *v)
{
    uint32_t index = 0;
    for (unsigned r = 0; r < v->flow->region_count; r++)
        for (unsigned o = 0; o < v->flow->regions[r].op_count; o++, index++) {
            if (index >= v->plan->op_count || v->plan->ops[index].region != r ||
                v->plan->ops[index].op != o)
                return ipu_error_set(v->error, IPU_ERR_INTERNAL,
                                     "plan: its operations are not those of the flow");
        }
    if (index != v->plan->op_count)
        return ipu_error_set(v->error, IPU_ERR_INTERNAL,
                             "plan: it has more operations than the flow");
    return 0;
}

int plan_verify(const struct flow *flow, const struct plan *plan, struct ipu_error *error)
{
    struct verifier v = {flow, plan, error, NULL, NULL};
    int status = check_identity(&v);
    if (status != 0)
        return status;
    v.bytes = ipu_calloc(flow->tiles, sizeof *v.bytes);
    if (v.bytes == NULL)
        return ipu_error_set(error, IPU_ERR_NO_MEMORY, "plan: no memory to verify");
    for (uint32_t i = 0; i < plan->op_count && status == 0; i++) {
        v.op = &plan->ops[i];
        status = check_op(&v, i);
    }
    for (uint32_t t = 0; t < flow->tiles && status == 0; t++)
        if (v.bytes[t] > PLAN_TILE_MOST)
            status = ipu_error_set(error, IPU_ERR_INTERNAL,
                                   "plan: tile %u holds %llu bytes of weights, has %u", t,
                                   (unsigned long long)v.bytes[t], PLAN_TILE_MOST);
    ipu_free(v.bytes);
    return status;
}
