# SPDX-License-Identifier: BSD-3-Clause
# Draw plot.sh's measurements as an SVG: two panels, acquires per second and p99 latency, against requests in flight, all
# axes logarithmic.
#
# Input: SERIES<TAB>IN-FLIGHT<TAB>ACQUIRES/S<TAB>P99-US, in order of drawing. Variables: subtitle, and about,
# where and how it was measured.

BEGIN {
    FS = "\t"
    width = 980; height = 452
    panel_width = 392; panel_height = 284; panel_top = 112
    left[1] = 72; left[2] = 562
    colours = split("#0072b2 #009e73 #d55e00", colour, " ")
}

{
    if (!($1 in number)) { number[$1] = ++series; title[series] = $1 }
    s = number[$1]
    k = ++points[s]
    x[s, k] = $2; y[1, s, k] = $3; y[2, s, k] = $4
    if (!($2 in seen)) { seen[$2] = 1; tick[++ticks] = $2 }
    for (p = 1; p <= 2; p++) {
        if (low[p] == "" || y[p, s, k] < low[p]) low[p] = y[p, s, k]
        if (high[p] == "" || y[p, s, k] > high[p]) high[p] = y[p, s, k]
    }
}

function log10(v) { return log(v) / log(10) }

# Decades from one that is no more than v, or no less
function floor_decade(v,   e) { e = int(log10(v)); while (10 ^ e > v) e--; while (10 ^ (e + 1) <= v) e++; return e }

# The steps 1, 2, 5, 10, ... that enclose the data
function bounds(p,   e) {
    e = floor_decade(low[p])
    from[p] = low[p] >= 5 * 10 ^ e ? 5 * 10 ^ e : low[p] >= 2 * 10 ^ e ? 2 * 10 ^ e : 10 ^ e
    e = floor_decade(high[p])
    to[p] = high[p] <= 10 ^ e ? 10 ^ e : high[p] <= 2 * 10 ^ e ? 2 * 10 ^ e : high[p] <= 5 * 10 ^ e ? 5 * 10 ^ e : 10 ^ (e + 1)
}

function px(p, v) { return left[p] + panel_width * log(v / tick[1]) / log(tick[ticks] / tick[1]) }
function py(p, v) { return panel_top + panel_height * (1 - log(v / from[p]) / log(to[p] / from[p])) }

function short(v) { return v >= 1000000 ? v / 1000000 " M" : v >= 1000 ? v / 1000 " k" : v }
function duration(v) { return v >= 1000000 ? v / 1000000 " s" : v >= 1000 ? v / 1000 " ms" : v " \302\265s" }
function grouped(v) { return v >= 1000 ? int(v / 1000) "," sprintf("%03d", v % 1000) : v }

function text(at_x, at_y, anchor, class, what) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", at_x, at_y, anchor, class, what
}

function line(x1, y1, x2, y2, class) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class
}

function axes(p, heading,   e, m, v, i, steps, step) {
    text(left[p], panel_top - 16, "start", "heading", heading)
    steps = split("1 2 5", step, " ")
    for (e = floor_decade(from[p]); 10 ^ e <= to[p] * 1.001; e++)
        for (m = 1; m <= steps; m++) {
            v = step[m] * 10 ^ e
            if (v < from[p] * 0.999 || v > to[p] * 1.001)
                continue
            line(left[p], py(p, v), left[p] + panel_width, py(p, v), m == 1 ? "major" : "minor")
            text(left[p] - 9, py(p, v) + 4, "end", m == 1 ? "tick" : "tick faint", p == 1 ? short(v) : duration(v))
        }
    for (i = 1; i <= ticks; i++) {
        line(px(p, tick[i]), panel_top + panel_height, px(p, tick[i]), panel_top + panel_height + 5, "axis")
        text(px(p, tick[i]), panel_top + panel_height + 20, "middle", "tick", grouped(tick[i]))
    }
    line(left[p], panel_top + panel_height, left[p] + panel_width, panel_top + panel_height, "axis")
    text(left[p] + panel_width / 2, panel_top + panel_height + 42, "middle", "label", "requests in flight")
}

function curve(p, s,   k) {
    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" stroke-linejoin=\"round\" points=\"", colour[s]
    for (k = 1; k <= points[s]; k++)
        printf "%s%.1f,%.1f", (k > 1 ? " " : ""), px(p, x[s, k]), py(p, y[p, s, k])
    print "\"/>"
    for (k = 1; k <= points[s]; k++)
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%s, %s in flight: %s</title></circle>\n",
            px(p, x[s, k]), py(p, y[p, s, k]), colour[s], title[s], grouped(x[s, k]),
            (p == 1 ? sprintf("%.0f acquires per second", y[p, s, k]) : sprintf("p99 %.0f \302\265s", y[p, s, k]))
}

END {
    if (series > colours) { print "at most " colours " series" >"/dev/stderr"; exit 1 }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n",
        width, height, width, height
    print "<title>Acquires per second and p99 latency against requests in flight</title>"
    print "<desc>" about "</desc>"
    print "<style>text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#24292f}.heading{font-size:15px;font-weight:bold}" \
        ".tick,.label,.legend{font-size:12px}.legend{font-size:13px}.faint{fill:#8c959f}.sub{font-size:11px;fill:#57606a}" \
        ".major{stroke:#d0d7de}.minor{stroke:#eef1f4}.axis{stroke:#57606a}</style>"
    printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height
    at = left[1]
    for (s = 1; s <= series; s++) {
        printf "<line x1=\"%.1f\" y1=\"36\" x2=\"%.1f\" y2=\"36\" stroke=\"%s\" stroke-width=\"2.5\"/>" \
            "<circle cx=\"%.1f\" cy=\"36\" r=\"4\" fill=\"%s\"/>\n", at, at + 28, colour[s], at + 14, colour[s]
        text(at + 36, 40.5, "start", "legend", title[s])
        at += 36 + 7 * length(title[s]) + 26
    }
    text(left[1], 64, "start", "sub", subtitle)
    bounds(1); bounds(2)
    axes(1, "acquires per second")
    axes(2, "p99 latency")
    for (p = 1; p <= 2; p++)
        for (s = series; s >= 1; s--)
            curve(p, s)
    print "</svg>"
}
