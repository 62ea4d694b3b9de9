/* Affine views: stacks of (count, stride) axes over the elements of a source. See build.h for the
 * meaning of each function. */
#include "compiler/graph/build.h"

struct flow_view view_identity(uint64_t elements)
{
    struct flow_view v = {.axes = 1};
    v.axis[0].count = elements;
    v.axis[0].stride = 1;
    return v;
}

void view_simplify(struct flow_view *view)
{
    unsigned n = 0;
    for (unsigned i = 0; i < view->axes; i++) {
        if (view->axis[i].count == 1 && (i + 1 < view->axes || n > 0))
            continue;
        if (n > 0 &&
            view->axis[n - 1].stride == (int64_t)view->axis[i].count * view->axis[i].stride) {
            view->axis[n - 1].count *= view->axis[i].count;
            view->axis[n - 1].stride = view->axis[i].stride;
        } else {
            view->axis[n++] = view->axis[i];
        }
    }
    view->axes = n;
}

bool view_is_identity(const struct flow_view *view)
{
    struct flow_view v = *view;
    view_simplify(&v);
    return v.axes == 1 && (v.axis[0].stride == 1 || v.axis[0].count == 1);
}

static bool prepend(struct flow_view *view, uint64_t count, int64_t stride)
{
    if (view->axes == FLOW_MAX_PERMUTE_AXES)
        return false;
    for (unsigned i = view->axes; i > 0; i--)
        view->axis[i] = view->axis[i - 1];
    view->axis[0].count = count;
    view->axis[0].stride = stride;
    view->axes++;
    return true;
}

/* Takes `need` elements from the fast end of the axes left in `rest` and prepends them to `out`. */
static bool take(struct flow_view *rest, uint64_t need, struct flow_view *out)
{
    while (need > 1) {
        if (rest->axes == 0)
            return false;
        uint64_t have = rest->axis[rest->axes - 1].count;
        int64_t stride = rest->axis[rest->axes - 1].stride;
        uint64_t part = have <= need ? have : need;
        if ((have <= need && need % have) || (have > need && have % need))
            return false;
        if (part > 1 && !prepend(out, part, stride))
            return false;
        need /= part;
        rest->axis[rest->axes - 1].count = have / part;
        rest->axis[rest->axes - 1].stride = stride * (int64_t)part;
        if (have == part)
            rest->axes--;
    }
    return true;
}

bool view_refine(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                 struct flow_view *out, unsigned first[GRAPH_MAX_RANK + 1])
{
    struct flow_view rest = *view;
    unsigned from_end[GRAPH_MAX_RANK + 1];
    out->axes = 0;
    for (unsigned i = rank; i-- > 0;) {
        if (!take(&rest, shape[i], out))
            return false;
        from_end[i] = out->axes;
    }
    for (unsigned i = 0; i < rank; i++)
        first[i] = out->axes - from_end[i];
    first[rank] = out->axes;
    return true;
}

static void append_range(struct flow_view *out, const struct flow_view *from, unsigned first,
                         unsigned last)
{
    for (unsigned k = first; k < last; k++)
        out->axis[out->axes++] = from->axis[k];
}

static void never_empty(struct flow_view *view)
{
    if (view->axes == 0) {
        view->axes = 1;
        view->axis[0].count = 1;
        view->axis[0].stride = 1;
    }
}

bool view_transpose(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                    const unsigned *permutation, struct flow_view *out)
{
    struct flow_view fine;
    unsigned first[GRAPH_MAX_RANK + 1];
    if (!view_refine(view, shape, rank, &fine, first))
        return false;
    out->axes = 0;
    for (unsigned i = 0; i < rank; i++)
        append_range(out, &fine, first[permutation[i]], first[permutation[i] + 1]);
    never_empty(out);
    view_simplify(out);
    return true;
}

bool view_broadcast(const struct flow_view *view, const uint64_t *shape, unsigned rank,
                    const uint64_t *wide, unsigned wide_rank, struct flow_view *out)
{
    struct flow_view fine;
    unsigned first[GRAPH_MAX_RANK + 1];
    if (!view_refine(view, shape, rank, &fine, first))
        return false;
    out->axes = 0;
    for (unsigned i = 0; i < wide_rank; i++) {
        unsigned missing = wide_rank - rank;
        bool repeat = i < missing || shape[i - missing] != wide[i];
        unsigned adds = repeat ? 1 : first[i - missing + 1] - first[i - missing];
        if (out->axes + adds > FLOW_MAX_PERMUTE_AXES)
            return false;
        if (!repeat) {
            append_range(out, &fine, first[i - missing], first[i - missing + 1]);
        } else if (wide[i] > 1) {
            out->axis[out->axes].count = wide[i];
            out->axis[out->axes++].stride = 0;
        }
    }
    never_empty(out);
    view_simplify(out);
    return true;
}
