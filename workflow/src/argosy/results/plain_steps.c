/* Reads the lines of steps as the recorder writes them, several times as fast as a reader of any JSON.
 *
 * A line is a plain step when it has the keys of a step in the recorder's order, with ", " and ": "
 * between them, and numbers that are not negative. Of every other line only the place is told; what it
 * is, is for a reader of any JSON to say. No line that such a reader refuses is taken for a plain step.
 *
 * A shared library without Python's headers: plain_steps.py says what its arguments are.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PHASES = 6, BUFFER = 1 << 18, PADDING = 64, MOST_EXACT_DIGITS = 19, MOST_EXACT_TENTHS = 27 };

/* What records.py takes for a count of steps, epochs or samples, and nothing beyond. */
enum { MOST_STEP = INT32_MAX, MOST_DIGITS = 15 };

struct columns {
    int64_t *step, *epoch, *samples;
    double *start, *seconds, *phases[PHASES];
    /* Where runs of other lines begin, and where they end. */
    int64_t *others_begin, *others_end;
};

/* What was found in several files, one after the other. */
struct found {
    int64_t steps;           /* rows in the columns */
    int64_t phases[PHASES];  /* of these, how many have the phase; there is NaN in the others */
    int64_t others;          /* other lines */
    int64_t other_runs;      /* runs of other lines that follow each other */
};

static const struct { const char *name; size_t length; } phase_names[PHASES] = {
    {"data", 4}, {"h2d", 3}, {"forward", 7}, {"backward", 8}, {"communication", 13}, {"update", 6},
};

/* One divided by 5 to the nth, as a number of 64 bits below it: digits * 2^-(63 + bits). */
struct fifth { uint64_t digits; int bits; };

/* What numbers are read with; in the plain locale the decimal sign is a point. */
struct numbers { struct fifth fifths[MOST_EXACT_TENTHS + 1]; locale_t plain; };

static int is_digit(char c) { return (unsigned char)(c - '0') <= 9; }

/* The characters after `text` where the line goes on with it, else NULL. */
static const char *after(const char *at, const char *text, size_t length)
{
    return memcmp(at, text, length) == 0 ? at + length : NULL;
}

#define AFTER(at, text) after(at, text, sizeof(text) - 1)

/* A count: so few digits fit. */
static const char *read_whole(const char *at, int64_t *value)
{
    const char *begin = at;
    int64_t number = 0;
    while (is_digit(*at) && at - begin < MOST_DIGITS)
        number = number * 10 + (*at++ - '0');
    if (at == begin || is_digit(*at) || (*begin == '0' && at - begin > 1))
        return NULL;
    *value = number;
    return at;
}

/* Eight digits at once, where the computer's first byte is the lowest; `*digits` is the number. */
static int eight_digits(const char *at, uint64_t *digits)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    if (((bytes + 0x4646464646464646) | (bytes - 0x3030303030303030)) & 0x8080808080808080)
        return 0;
    bytes -= 0x3030303030303030;
    bytes = bytes * 10 + (bytes >> 8);               /* pairs */
    *digits = ((bytes & 0xff000000ff) * (100 + (UINT64_C(1000000) << 32)) +
               (bytes >> 16 & 0xff000000ff) * (1 + (UINT64_C(10000) << 32))) >> 32;
    return 1;
#else
    (void)at, (void)digits;
    return 0;
#endif
}

static const char *read_digits(const char *at, uint64_t *number)
{
    uint64_t eight;
    while (eight_digits(at, &eight)) {
        *number = *number * 100000000 + eight;
        at += 8;
    }
    while (is_digit(*at))
        *number = *number * 10 + (uint64_t)(*at++ - '0');
    return at;
}

/* Whether the digits of a number make a number of 64 bits; the zeros before them count for nothing. */
static int fit(const char *at, int digits)
{
    for (; digits > MOST_EXACT_DIGITS && (*at == '0' || *at == '.'); at++)
        digits -= *at == '0';
    return digits <= MOST_EXACT_DIGITS;
}

static void divide_by_five(struct fifth fifths[MOST_EXACT_TENTHS + 1])
{
    uint64_t power = 1;
    for (int n = 0; n <= MOST_EXACT_TENTHS; n++, power *= 5) {
        int bits = 64 - __builtin_clzll(power);
        /* Of the power of two, which is one itself, only one less fits. */
        unsigned __int128 one = ((unsigned __int128)1 << (63 + bits)) - (n == 0);
        fifths[n] = (struct fifth){(uint64_t)(one / power), bits};
    }
}

/* The double next to digits / 10^tenths; 0 where 64 bits of it do not tell which that is.
 *
 * The true quotient is at most three above those 64 bits, because both factors of their product are
 * at most one below what they stand for, and it may be doubled. Doubles have 53 bits: of the 11 others
 * it matters whether they are more than half, less, or so near to it that either may be true.
 */
static int nearest(uint64_t digits, int tenths, const struct fifth *fifths, double *value)
{
    const uint64_t half = 1 << 10;
    int shift, exponent;
    if (digits == 0) {
        *value = 0;
        return 1;
    }
    shift = __builtin_clzll(digits);
    exponent = 1 - shift - fifths[tenths].bits - tenths;
    unsigned __int128 product = (unsigned __int128)(digits << shift) * fifths[tenths].digits;
    if (!(product >> 127)) {
        product <<= 1;
        exponent--;
    }
    uint64_t bits = (uint64_t)(product >> 64), rest = bits & (2 * half - 1);
    if (half - 3 <= rest && rest <= half)
        return 0;
    uint64_t power = (uint64_t)(exponent + 11 + 1023) << 52;
    double two_to_it;
    memcpy(&two_to_it, &power, sizeof two_to_it);
    *value = (double)((bits >> 11) + (rest > half)) * two_to_it;
    return 1;
}

/* A number of JSON that is not negative, as the double that is nearest to it. */
static const char *read_number(const char *begin, double *value, const struct numbers *numbers)
{
    uint64_t number = 0;
    const char *at = read_digits(begin, &number);
    int digits = (int)(at - begin), tenths = 0;
    if (digits == 0 || (*begin == '0' && digits > 1))
        return NULL;
    if (*at == '.') {
        const char *decimals = at + 1;
        at = read_digits(decimals, &number);
        tenths = (int)(at - decimals);
        if (tenths == 0)
            return NULL;
        digits += tenths;
    }
    if (*at == 'e' || *at == 'E') {
        int is_small = at[1] == '-', exponent = 0;
        const char *power = at + 1 + (at[1] == '-' || at[1] == '+');
        for (at = power; is_digit(*at) && exponent < 10000; at++)
            exponent = exponent * 10 + (*at - '0');
        if (at == power || is_digit(*at))
            return NULL;
        tenths += is_small ? exponent : -exponent;
    }
    if (0 <= tenths && tenths <= MOST_EXACT_TENTHS && fit(begin, digits)
        && nearest(number, tenths, numbers->fifths, value))
        return at;
    *value = strtod_l(begin, NULL, numbers->plain);
    return *value <= 1e300 ? at : NULL;
}

static const char *read_phases(const char *at, const struct columns *to, int64_t row,
                               const struct numbers *numbers, int *phases)
{
    int seen = 0;
    while (*at == '"') {
        const char *name = ++at;
        int phase = 0;
        for (at = NULL; phase < PHASES; phase++)
            if ((at = after(name, phase_names[phase].name, phase_names[phase].length)) && *at == '"')
                break;
        if (phase == PHASES || seen & 1 << phase)
            return NULL;
        seen |= 1 << phase;
        if (!(at = AFTER(at, "\": ")) || !(at = read_number(at, &to->phases[phase][row], numbers)))
            return NULL;
        if (*at == '}')
            break;
        if (!(at = AFTER(at, ", ")) || *at != '"')
            return NULL;
    }
    *phases = seen;
    return at;
}

/* Whether a line is a plain step, which then is in `row` of the columns, and has these `phases`. */
static int read_step(const char *at, const struct columns *to, int64_t row,
                     const struct numbers *numbers, int *phases)
{
    return (at = AFTER(at, "{\"kind\": \"step\", \"step\": "))
        && (at = read_whole(at, &to->step[row])) && to->step[row] <= MOST_STEP
        && (at = AFTER(at, ", \"epoch\": "))
        && (at = read_whole(at, &to->epoch[row])) && to->epoch[row] <= MOST_STEP
        && (at = AFTER(at, ", \"start\": "))
        && (at = read_number(at, &to->start[row], numbers))
        && (at = AFTER(at, ", \"seconds\": "))
        && (at = read_number(at, &to->seconds[row], numbers))
        && (at = AFTER(at, ", \"samples\": "))
        && (at = read_whole(at, &to->samples[row]))
        && (at = AFTER(at, ", \"phases\": {"))
        && (at = read_phases(at, to, row, numbers, phases))
        && AFTER(at, "}}\n");
}

static void note_step(const struct columns *to, struct found *found, int phases)
{
    for (int phase = 0; phase < PHASES; phase++)
        if (phases & 1 << phase)
            found->phases[phase]++;
        else
            to->phases[phase][found->steps] = __builtin_nan("");
    found->steps++;
}

static void note_other(const struct columns *to, struct found *found, int64_t first_run,
                       int64_t begin, int64_t end)
{
    int64_t run = found->other_runs;
    found->others++;
    if (run > first_run && to->others_end[run - 1] == begin) {
        to->others_end[run - 1] = end;
        return;
    }
    to->others_begin[run] = begin;
    to->others_end[run] = end;
    found->other_runs++;
}

/* A window on the file: `size` bytes from `offset` on, and zeros behind them. */
struct window {
    int file;
    int64_t offset, size;
    int is_last;
    char *bytes;
};

/* Moves the window on to `offset`, keeping what it has of it; 0 or what went wrong. */
static int move(struct window *window, int64_t offset)
{
    int64_t kept = window->offset + window->size - offset;
    if (kept > 0)
        memmove(window->bytes, window->bytes + (offset - window->offset), (size_t)kept);
    window->offset = offset;
    window->size = kept > 0 ? kept : 0;
    while (window->size < BUFFER) {
        ssize_t got = pread(window->file, window->bytes + window->size,
                            (size_t)(BUFFER - window->size), offset + window->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0) {
            window->is_last = 1;
            break;
        }
        window->size += got;
    }
    memset(window->bytes + window->size, 0, PADDING);
    return 0;
}

/* Where the line at `begin` ends, behind its newline; -1 where the window ends before it does. */
static int64_t line_end(const struct window *window, int64_t begin)
{
    const char *line = window->bytes + (begin - window->offset);
    int64_t rest = window->size - (begin - window->offset);
    const char *newline = rest > 0 ? memchr(line, '\n', (size_t)rest) : NULL;
    return newline ? begin + (newline - line) + 1 : -1;
}

/* The end of a line that is longer than the window; the window is moved there. It is not looked for
 * beyond `limit`: then what `end` says is some place behind that.
 */
static int skip_long_line(struct window *window, int64_t *end, int64_t limit)
{
    int problem = 0;
    do {
        int64_t behind = window->offset + window->size;
        if (window->is_last || behind >= limit) {
            *end = behind;
            return 0;
        }
        if ((problem = move(window, behind)))
            return problem;
        *end = line_end(window, behind);
    } while (*end < 0);
    return problem;
}

static int read_lines(struct window *window, int64_t begin, int64_t end, int64_t capacity,
                      const struct columns *to, struct found *found, const struct numbers *numbers)
{
    int problem, phases;
    int64_t at = begin, first_run = found->other_runs, next;
    /* A line belongs to the part in which it begins: what reaches into this one is another's, and may
     * reach far beyond it. */
    if (begin > 0) {
        if ((problem = move(window, begin - 1)))
            return problem;
        if ((at = line_end(window, begin - 1)) < 0 && (problem = skip_long_line(window, &at, end)))
            return problem;
    }
    if (at >= end)
        return 0;
    if ((problem = move(window, at)))
        return problem;
    for (; at < end; at = next) {
        if ((next = line_end(window, at)) < 0 && !window->is_last) {
            if ((problem = move(window, at)))
                return problem;
            next = line_end(window, at);
        }
        if (next < 0) {
            /* The last line, unended, or one that is longer than the window. */
            if (window->is_last && at >= window->offset + window->size)
                return 0;
            if (window->is_last)
                window->bytes[window->size] = '\n';
            else if ((problem = skip_long_line(window, &next, INT64_MAX)))
                return problem;
            else {
                note_other(to, found, first_run, at, next);
                continue;
            }
            next = window->offset + window->size;
        }
        if (found->steps == capacity)
            return EOVERFLOW;
        if (read_step(window->bytes + (at - window->offset), to, found->steps, numbers, &phases))
            note_step(to, found, phases);
        else
            note_other(to, found, first_run, at, next);
    }
    return 0;
}

/* Reads the lines that begin at bytes `begin` to `end` of a file; 0 or what went wrong, as errno says it.
 *
 * They are added to what was `found` before, in other files. `to` has room for `capacity` steps in all,
 * and for one run of other lines more for each file.
 */
int argosy_plain_steps_2(int file, int64_t begin, int64_t end, int64_t capacity,
                         const struct columns *to, struct found *found)
{
    struct window window = {.file = file, .bytes = malloc(BUFFER + PADDING)};
    struct numbers numbers = {.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    int problem = ENOMEM;
    divide_by_five(numbers.fifths);
    if (window.bytes && numbers.plain)
        problem = read_lines(&window, begin, end, capacity, to, found, &numbers);
    free(window.bytes);
    if (numbers.plain)
        freelocale(numbers.plain);
    return problem;
}
