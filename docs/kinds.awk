# SPDX-License-Identifier: BSD-3-Clause
# Draw what kinds.sh found: a lane for each kind, a square for each request, in columns of two minutes. Below the line when a
# leaky bucket's turns come, and how much a concurrency limit's leases hold in the middle of each column.
#
# Input: KIND<TAB>PARAMETERS<TAB>MINUTE<TAB>VERDICT<TAB>DELAY in minutes, lanes one after the other, each in order of time.

BEGIN {
    FS = "\t"
    minutes = 180; column = 2; pitch = 7; side = 6 # pixels from square to square, and of a square
    left = 236; width = minutes / column * pitch; head = 92; lane_height = 88; base = 64 # a lane's baseline
    edge["fixed-window"] = edge["sliding-window"] = "60 120"
    edge["quota"] = "30 90 150"
}

{
    if ($1 != kind[lanes]) {
        kind[++lanes] = $1
        parameters[lanes] = $2
    }
    asked[lanes]++
    at = int($3 / column)
    if ($4 == "allowed") {
        minute[lanes, ++passed[lanes]] = $3
        allowed[lanes, at]++
        if ($1 == "leaky-bucket" && $3 + $5 < minutes) turn[int(($3 + $5) / column)]++
    } else {
        denied[lanes, at]++
    }
}

function text(x, y, anchor, class, what) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, what
}

function line(x1, y1, x2, y2, class) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class
}

function square(at, y, class) {
    printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"1\" class=\"%s\"/>\n", \
        left + at * pitch + 0.5, y, side, side, class
}

function px(m) { return left + m / column * pitch }

# The most that passed in any hour
function most_in_an_hour(l,   i, first, most) {
    first = 1
    for (i = 1; i <= passed[l]; i++) {
        while (minute[l, i] - minute[l, first] >= 60) first++
        if (i - first + 1 > most) most = i - first + 1
    }
    return most
}

function draw_lane(l,   y, at, n, i, edges, m) {
    y = head + (l - 1) * lane_height + base
    n = split(edge[kind[l]], edges, " ")
    for (i = 1; i <= n; i++) {
        m = edges[i]
        line(px(m), y - 58, px(m), y + 4, "edge")
    }
    line(left, y + 0.5, left + width, y + 0.5, "axis")
    text(left - 16, y - 26, "end", "kind", kind[l])
    text(left - 16, y - 10, "end", "sub", parameters[l])
    for (at = 0; at < minutes / column; at++) {
        for (i = 0; i < allowed[l, at]; i++) square(at, y - (i + 1) * pitch, "allowed")
        for (i = 0; i < denied[l, at]; i++) square(at, y - (allowed[l, at] + i + 1) * pitch, "denied")
        if (kind[l] == "leaky-bucket")
            for (i = 0; i < turn[at]; i++) square(at, y + 3 + i * pitch, "turn")
        if (kind[l] == "concurrency")
            for (i = held_at(l, (at + 0.5) * column); i > 0; i--) bar(at, y - 1 + i * 4)
    }
    text(left + width + 22, y - 26, "start", "figure", passed[l] " of " asked[l])
    text(left + width + 22, y - 10, "start", "sub", "at most " most_in_an_hour(l) " in an hour")
}

# How many leases hold at minute m: those taken and not over, as nothing is released here
function held_at(l, m,   i, lease, n) {
    match(parameters[l], /lease=[0-9]+m/)
    lease = substr(parameters[l], RSTART + 6, RLENGTH - 7) + 0
    for (i = 1; i <= passed[l]; i++)
        if (minute[l, i] <= m && m < minute[l, i] + lease) n++
    return n + 0
}

function bar(at, y) {
    printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"3\" class=\"held\"/>\n", left + at * pitch, y, pitch
}

function legend(x, class, what) {
    printf "<rect x=\"%.1f\" y=\"50\" width=\"9\" height=\"9\" rx=\"1.5\" class=\"%s\"/>\n", x, class
    text(x + 15, 58.5, "start", "legend", what)
}

END {
    total_width = left + width + 170
    height = head + lanes * lane_height + 34
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"", \
        total_width, height, total_width, height
    print " font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\" role=\"img\">"
    print "<title>Every kind of limit under the same traffic</title>"
    print "<style>text{fill:#24292f;font-size:12px}.title{font-size:17px;font-weight:600}"
    print ".kind{font-size:14px;font-weight:600}"
    print ".figure{font-size:14px;font-weight:600}.sub{fill:#57606a;font-size:11.5px}.legend{font-size:12.5px}"
    print ".axis{stroke:#8c959f}.grid{stroke:#eaeef2}.edge{stroke:#8250df;stroke-dasharray:3 3}"
    print ".allowed{fill:#0072b2}.denied{fill:#f3c6a5;stroke:#d55e00;stroke-width:.8}.turn{fill:#56b4e9}.held{fill:#56b4e9}</style>"
    printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", total_width, height
    text(24, 32, "start", "title", "Twenty an hour, in seven ways, under the same three hours of traffic")
    legend(24, "allowed", "allowed")
    legend(104, "denied", "denied")
    legend(180, "turn", "leaky bucket: when its turn comes")
    legend(424, "held", "concurrency: how many are held")
    line(658, 48, 658, 62, "edge")
    text(667, 58.5, "start", "legend", "a window ends")
    bottom = head + (lanes - 1) * lane_height + base
    for (m = 0; m <= minutes; m += 30) {
        line(px(m), head, px(m), bottom + 12, "grid")
        text(px(m), bottom + 32, "middle", "sub", sprintf("%d:%02d", m / 60, m % 60))
    }
    for (l = 1; l <= lanes; l++) draw_lane(l)
    print "</svg>"
}
