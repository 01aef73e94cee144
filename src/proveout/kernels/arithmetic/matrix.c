/* The matrix unit's product by the rules of matrix.py, for every operand, destination and special value.

   SrcA [tiles*32, columns] and SrcB [rows, tiles*32] come as exponent fields (far below 0 for zeros) and as pairs of
   bfloat16, the high part of the significand above the low one. A group's products are aligned relative to its own
   largest exponent: each is the two small whole parts times 2^-shift, and added to 1.5*2^23 it is rounded by itself to
   a whole number; the factor 1 + 2^-13 breaks its ties away from zero and changes nothing else, fused or not. */

#include <stdint.h>
#include <string.h>

#define WIDTH 32 /* columns that are computed together */
#define HEIGHT 32 /* rows that a tile of SrcA serves while it is near */
#define GROUP 8
#define TILE 32
#define ZERO -4096

typedef struct {
    int32_t bias, each_half, each_keep, last_half, last_keep, too_large, largest, spoilt;
} Rules;

static inline int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline float as_float(int32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline int32_t as_int(float x) { int32_t y; memcpy(&y, &x, 4); return y; }

/* Shifted right to nearest, halves up, which leaves 0 of any after 31. */
static inline int32_t near(int32_t value, int32_t by) { return (((value << 1) >> min(by, 31)) + 1) >> 1; }

static inline __attribute__((always_inline)) void group(
    int phases, const int32_t *a_exponents, const int32_t *a_parts, long columns,
    const int32_t *b_exponents, const int32_t *b_parts, int32_t *top, float sums[4][WIDTH]) {
    for (int j = 0; j < WIDTH; j++) {
        int32_t largest = 0;
        float p = 12582912.0f, q = p, r = p, s = p;
#pragma GCC unroll 8
        for (int k = 0; k < GROUP; k++) largest = max(largest, a_exponents[k * columns + j] + b_exponents[k]);
#pragma GCC unroll 8
        for (int k = 0; k < GROUP; k++) {
            int32_t shift = max(a_exponents[k * columns + j] + b_exponents[k] - largest, -14);
            float scale = as_float((int32_t)((uint32_t)shift << 23) + 0x3F800400);
            int32_t a = a_parts[k * columns + j];
            float a_high = as_float(a & -0x10000) * scale, a_low = as_float((int32_t)((uint32_t)a << 16)) * scale;
            float b_high = as_float(b_parts[k] & -0x10000), b_low = as_float((int32_t)((uint32_t)b_parts[k] << 16));
            p += a_high * b_high;
            if (phases > 1) q += a_low * b_high;
            if (phases > 2) r += a_high * b_low;
            if (phases > 3) s += a_low * b_low;
        }
        top[j] = largest;
        sums[0][j] = p;
        if (phases > 1) sums[1][j] = q;
        if (phases > 2) sums[2][j] = r;
        if (phases > 3) sums[3][j] = s;
    }
}

/* Two groups added to the destination; how many sums tt-metal#38306 spoilt. */
static inline int32_t step(
    Rules rules, int32_t offset, int32_t *dest,
    const int32_t *top0, const float *sum0, const int32_t *top1, const float *sum1) {
    int32_t hits = 0;
    for (int j = 0; j < WIDTH; j++) {
        int32_t old = dest[j], field = (old >> 23) & 255;
        int32_t own0 = max(top0[j] + rules.bias - offset, 0), own1 = max(top1[j] + rules.bias - offset, 0);
        int32_t top = max(max(own0, own1), field);
        int32_t whole0 = own0 > 0 ? (as_int(sum0[j]) - 0x4B400000) * 8192 : 0;
        int32_t whole1 = own1 > 0 ? (as_int(sum1[j]) - 0x4B400000) * 8192 : 0;
        int32_t held = near(field > 0 ? (old & 0x7FFFFF) | 0x800000 : 0, top - field);
        held = (held + rules.each_half) & rules.each_keep;
        int32_t total = old < 0 ? -held : held;
        total += (near(whole0, top - own0) + rules.each_half) & rules.each_keep;
        total += (near(whole1, top - own1) + rules.each_half) & rules.each_keep;
        int32_t magnitude = total < 0 ? -total : total;
        /* rounding up to a power of 2 on the way to float does no harm: to 24 bits the number is that power */
        int32_t right = max((as_int((float)magnitude) >> 23) - (127 + 23), 0);
        int32_t kept = as_int((float)((((magnitude << 1) >> right) + 1) >> 1));
        kept = (kept + rules.last_half) & rules.last_keep;
        int32_t own = (kept >> 23) + right + top - 150, after_point = kept & 0x7FFFFF;
        int32_t hit = total == rules.spoilt;
        own = hit ? top + 4 : own;
        after_point = hit ? 0 : after_point;
        int32_t result = own >= rules.too_large ? rules.largest : (int32_t)((uint32_t)own << 23) | after_point;
        dest[j] = (total == 0) | (own <= 0) ? 0 : (total & INT32_MIN) | result;
        hits += hit;
    }
    return hits;
}

static inline __attribute__((always_inline)) long rows_of(
    int phases, Rules rules, const int32_t *a_exponents, const int32_t *a_parts,
    const int32_t *b_exponents, const int32_t *b_parts, int32_t *dest, long rows, long columns, long tiles) {
    static const int32_t offsets[4] = {0, 5, 7, 12};
    int32_t tops[4][WIDTH];
    float sums[4][4][WIDTH];
    long hits = 0, depth = tiles * TILE;
    for (long first = 0; first < rows; first += HEIGHT)
        for (long column = 0; column < columns; column += WIDTH)
            for (long k = 0; k < depth; k += TILE)
                for (long row = first; row < rows && row < first + HEIGHT; row++) {
                    int32_t *here = dest + row * columns + column;
                    for (int g = 0; g < 4; g++) {
                        long a = (k + g * GROUP) * columns + column, b = row * depth + k + g * GROUP;
                        group(phases, a_exponents + a, a_parts + a, columns, b_exponents + b, b_parts + b, tops[g], sums[g]);
                    }
                    for (int p = 0; p < phases; p++)
                        for (int g = 0; g < 4; g += 2)
                            hits += step(rules, offsets[p], here, tops[g], sums[g][p], tops[g + 1], sums[g + 1][p]);
                }
    return hits;
}

/* Exponents and parts from the patterns of source registers: float32, or float16 in their low half. */
void proveout_operand(const int32_t *patterns, long count, int src_a, int half, int32_t *exponents, int32_t *parts) {
    int field_at = half ? 10 : 23, field_of = half ? 31 : 255, point_at = half ? 0 : 13, sign_at = half ? 15 : 31;
    int high_at = src_a ? 6 : 4, low_at = src_a ? 1 : 0, low_of = src_a ? 31 : 15, low_times = src_a ? 1 : 8;
    for (long i = 0; i < count; i++) {
        int32_t pattern = patterns[i], field = (pattern >> field_at) & field_of;
        int32_t significand = ((pattern >> point_at) & 0x3FF) | 0x400;
        int32_t high = as_int((float)(significand >> high_at));
        int32_t low = as_int((float)(((significand >> low_at) & low_of) * low_times));
        int32_t sign = -((pattern >> sign_at) & 1) & (int32_t)0x80008000;
        exponents[i] = field ? field : ZERO;
        parts[i] = field ? sign | high | (int32_t)((uint32_t)low >> 16) : 0;
    }
}

/* `columns` is a multiple of WIDTH; `dest` holds what the destination held before. */
long proveout_matmul(
    int phases, Rules rules, const int32_t *a_exponents, const int32_t *a_parts,
    const int32_t *b_exponents, const int32_t *b_parts, int32_t *dest, long rows, long columns, long tiles) {
    switch (phases) {
#define PHASES(n) \
    case n: return rows_of(n, rules, a_exponents, a_parts, b_exponents, b_parts, dest, rows, columns, tiles);
        PHASES(1) PHASES(2) PHASES(3) PHASES(4)
    }
    return -1;
}
