-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: what each kind of limit but the buckets does with its state.
--
--     load(s)        read s.value into s; false: it holds something else
--     tell(s)        put into the reply what a key is found with
--     wait(s, take, reserves)
--                    when there will be room for `take`, more than s.left but not above the limit; `reserves`: for one
--                    reservation more. Only kinds whose client cannot tell that from what it was told
--     store(s)       what to write, and the expiry in milliseconds: 0 means delete
--
-- s is a key's state during the call: kind, a, b, c (its limit's parameters), value (what was stored, or false), left
-- (what can be taken), taken (what was). Whoever takes changes these two; tell comes before, store after.
local function make_kinds()
    local floor, ceil, min, pack, read = math.floor, math.ceil, math.min, struct.pack, struct.unpack
    local DAY, HOUR = 86400000000, 3600000000
    local load, tell, wait, store = {}, {}, {}, {}

    local function whole(x, least, most)
        return x >= least and x <= most and x % 1 == 0
    end

    -- Holds: the leases and reservations in a state, 28 bytes each from s.from on: when it ends, its units, its id.
    -- Those from s.first to s.last live, but for s.dead; those made by this call are in s.made, {when, units, id}. Each
    -- are in the order in which they end, and come together when they are written. s.held units in s.holds holds, the
    -- last of which ends at s.latest. A call may make, take out and ask a thousand times, of 8192 holds: none of it
    -- goes through all of them each time.
    local HOLDS_MOST = 8192

    local function hold_at(s, k)
        local when, units = read('<dd', s.value, s.from + 28 * (k - 1))
        if whole(when, 0, 9007199254740992) and whole(units, 1, 9007199254740991) then return when, units end
        return now, 0 -- not a hold: it holds nothing
    end

    local function set_latest(s)
        local newest = s.made[#s.made]
        while s.last >= s.first and s.dead[s.last] do s.last = s.last - 1 end
        s.latest = math.max(newest and newest[1] or 0, s.last >= s.first and hold_at(s, s.last) or 0)
        if s.holds > 0 and s.latest <= now then s.latest = now + 1 end -- not in order: a damaged state
    end

    -- As if all of them were made now, `shift` microseconds later.
    local function move(s, shift)
        for k = s.first, s.last do
            local when, units = hold_at(s, k)
            local at = s.from + 28 * k - 12
            s.made[k] = {when + shift, units, s.value:sub(at, at + 11)}
        end
        s.last = 0
    end

    local function load_holds(s, from, held)
        s.from, s.first, s.last, s.dead, s.made, s.held, s.latest = from, 1, 0, {}, {}, held, 0
        if from then s.last = (#s.value - from + 1) / 28 end
        s.holds = s.last
        return s.last <= HOLDS_MOST and s.last % 1 == 0 and held >= s.last
    end

    -- Drop those that have ended. False: the units do not add up.
    local function drop_ended(s)
        while s.first <= s.last do
            local when, units = hold_at(s, s.first)
            if when > now then break end
            s.first, s.holds, s.held = s.first + 1, s.holds - 1, s.held - units
        end
        while s.made[1] and s.made[1][1] <= now do
            s.holds, s.held = s.holds - 1, s.held - s.made[1][2]
            table.remove(s.made, 1)
        end
        set_latest(s)
        return s.held >= s.holds and (s.held == 0) == (s.holds == 0)
    end

    -- What can be taken beside what is used and held.
    local function count_left(s)
        s.left = s.a - s.held - (s.kind == 4 and s.used + s.taken or 0)
        if s.kind == 7 and s.holds >= HOLDS_MOST then s.left = min(s.left, 0) end
    end

    -- One hold more or, with -1, fewer. A damaged state's units may not add up: then as many as there are holds, or
    -- none.
    local function count_hold(s, one, units)
        s.holds = s.holds + one
        s.held = s.holds > 0 and min(math.max(s.holds, s.held + one * units), 9007199254740991) or 0
    end

    -- The first of from … past - 1 that passes, as all do after it; else `past`.
    local function halve(from, past, test)
        while from < past do
            local middle = floor((from + past) / 2)
            if test(middle) then past = middle else from = middle + 1 end
        end
        return from
    end

    local function add_hold(s, when, units, id)
        local made = s.made
        local k = #made + 1
        if k > 1 and made[k - 1][1] > when then k = halve(1, k, function(i) return made[i][1] > when end) end
        table.insert(made, k, {when, units, id})
        if s.back and #s.back > 0 and when < s.ends[#s.back] then s.back = nil end
        count_hold(s, 1, units)
        if when > s.latest then s.latest = when end
        count_left(s)
    end

    -- Which of those stored has this id. After a few have been looked for it pays to know them all.
    local function stored_at(s, id)
        if s.last < s.first then return end
        s.sought = (s.sought or 0) + 1
        if s.sought <= 16 then
            local at = s.from + 28 * (s.first - 1) + 16
            while true do
                at = s.value:find(id, at, true)
                local k = at and (at - s.from - 16) / 28 + 1
                if not k or k > s.last then return end
                if k % 1 == 0 and not s.dead[k] then return k end
                at = at + 1
            end
        end
        if not s.index then
            s.index = {}
            for k = s.last, s.first, -1 do
                local at = s.from + 28 * k - 12
                if not s.dead[k] then s.index[s.value:sub(at, at + 11)] = k end
            end
        end
        local k = s.index[id]
        return k and not s.dead[k] and k or nil
    end

    -- Take a hold out; its units, or nil if there is none of this id.
    local function remove_hold(s, id)
        local k, units = stored_at(s, id), nil
        if k then
            local _
            _, units = hold_at(s, k)
            s.dead[k] = true
            if s.back and k < s.ahead then s.back = nil end
        else
            for i, hold in ipairs(s.made) do
                if hold[3] == id then
                    units, s.back = hold[2], nil
                    table.remove(s.made, i)
                    break
                end
            end
        end
        if not units then return nil end
        count_hold(s, -1, units)
        set_latest(s)
        count_left(s)
        return units
    end

    -- When `units` have come back and `count` holds have ended: not now, whatever a damaged state says. The holds are
    -- gone through once, as far as need be: s.ends[i] is when i of them have ended, s.back[i] how many units those are;
    -- s.ahead and s.ahead_made are the first that were not looked at.
    local function freed(s, units, count)
        if not s.back then s.ends, s.back, s.ahead, s.ahead_made = {}, {}, s.first, 1 end
        local ends, back, made = s.ends, s.back, s.made
        local n = #back
        while n < count or n == 0 or back[n] < units do
            while s.ahead <= s.last and s.dead[s.ahead] do s.ahead = s.ahead + 1 end
            local when, of
            if s.ahead <= s.last then when, of = hold_at(s, s.ahead) end
            local hold = made[s.ahead_made]
            if hold and (not when or hold[1] < when) then
                when, of = hold[1], hold[2]
                s.ahead_made = s.ahead_made + 1
            elseif when then
                s.ahead = s.ahead + 1
            else
                break
            end
            n = n + 1
            ends[n], back[n] = when, (back[n - 1] or 0) + of
        end
        local k = halve(math.max(1, count), n, function(i) return back[i] >= units end)
        return math.max(ends[k] or now, now + 1)
    end

    local function pack_holds(s, header)
        local parts, from = {header}, s.first
        local function copy(past)
            if past > from then
                parts[#parts + 1] = s.value:sub(s.from + 28 * (from - 1), s.from + 28 * (past - 1) - 1)
            end
        end
        local function copy_living(past)
            if next(s.dead) then
                for k = from, past - 1 do
                    if s.dead[k] then
                        copy(k)
                        from = k + 1
                    end
                end
            end
            copy(past)
            from = past
        end
        for _, hold in ipairs(s.made) do
            local past = s.last + 1
            if from < past and hold_at(s, s.last) > hold[1] then
                past = halve(from, past, function(k) return hold_at(s, k) > hold[1] end)
            end
            if from < past then copy_living(past) end
            parts[#parts + 1] = pack('<dd', hold[1], hold[2]) .. hold[3]
        end
        copy_living(s.last + 1)
        return table.concat(parts)
    end

    -- Days from 1970-01-01 to the first day of a month, counted from January 1970.
    local before = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}
    local function month_start(month)
        local years = floor(month / 12)
        local y, m = 1969 + years, month - 12 * years
        local leap = (y + 1) % 4 == 0 and ((y + 1) % 100 ~= 0 or (y + 1) % 400 == 0)
        return 365 * years + floor(y / 4) - floor(y / 100) + floor(y / 400) - 477 + before[m + 1]
            + (leap and m >= 2 and 1 or 0)
    end

    -- Start and end of the calendar's window that holds now.
    local function calendar(per, offset)
        local here = now + offset
        local day = floor(here / DAY)
        if per == 1 then
            local start = floor(here / HOUR) * HOUR - offset
            return start, start + HOUR
        elseif per == 4 then
            local month = floor(day * 4800 / 146097) -- by a month's mean length: this one or a neighbour
            while month_start(month) > day do month = month - 1 end
            while month_start(month + 1) <= day do month = month + 1 end
            return month_start(month) * DAY - offset, month_start(month + 1) * DAY - offset
        end
        local days, shift = 1, 0
        if per == 3 then days, shift = 7, 3 end -- from the Monday before 1970-01-01, a Thursday
        local start = (floor((day + shift) / days) * days - shift) * DAY - offset
        return start, start + days * DAY
    end

    -- Fixed window (limit, window) and quota (limit, per, offset + one day). Stepped back before the window by more
    -- than its length: the window of now; used, and what is held, stays.
    load[3] = function(s)
        local start, stop, used, held, from = nil, nil, 0, 0, nil
        if s.value then
            local magic, version
            if #s.value == 26 then
                magic, version, start, stop, used = read('<BBddd', s.value)
            elseif s.kind == 4 and #s.value >= 62 then
                from = 35
                magic, version, start, stop, used, held = read('<BBdddd', s.value)
            end
            if not (magic == 0xB1 and version == 0x10 + s.kind and whole(start, -4398046511104, 9007199254740991)
                    and whole(stop, start + 1, 9007199254740992) and whole(used, from and 0 or 1, 9007199254740991)
                    and whole(held, 0, 9007199254740991)) then
                return false
            end
        end
        if stop and now >= stop then stop, used, from, held = nil, 0, nil, 0 end
        if s.kind == 4 then
            if not load_holds(s, from, held) or not drop_ended(s) then return false end
            if used == 0 and s.holds == 0 then stop = nil end
        end
        if not stop or start - now > stop - start then
            if s.kind == 4 then
                start, stop = calendar(s.b, s.c - DAY)
            else
                start = now - now % s.b
                stop = start + s.b
            end
        end
        s.start, s.stop, s.used = start, stop, used
        if s.kind == 4 then count_left(s) else s.left = s.a - used end
        return true
    end
    tell[3] = function(s)
        out[size + 1], out[size + 2] = s.used, s.stop
        size = size + 2
    end
    store[3] = function(s)
        local used = s.used + s.taken
        if used == 0 then return nil, 0 end
        return pack('<BBddd', 0xB1, 0x13, s.start, s.stop, used), ceil((s.stop - now) / 1000)
    end

    load[4] = load[3]
    tell[4] = function(s)
        out[size + 1], out[size + 2], out[size + 3] = s.used + s.taken, s.stop, s.held
        out[size + 4], out[size + 5] = s.holds, min(s.latest, s.stop)
        size = size + 5
    end
    wait[4] = function(s, take, reserves)
        local room = s.a - s.used - s.taken
        if s.holds == 0 or take > room then return s.stop end
        return min(freed(s, s.held - (room - take), reserves and s.holds - HOLDS_MOST + 1 or 0), s.stop)
    end
    store[4] = function(s)
        local used = s.used + s.taken
        if s.holds == 0 then
            if used == 0 then return nil, 0 end
            return pack('<BBddd', 0xB1, 0x14, s.start, s.stop, used), ceil((s.stop - now) / 1000)
        end
        local stop = used > 0 and s.stop or min(s.latest, s.stop)
        return pack_holds(s, pack('<BBdddd', 0xB1, 0x14, s.start, s.stop, used, s.held)), ceil((stop - now) / 1000)
    end

    -- Sliding window (limit, window, tick): two counters. Stepped back before the window by at most its length:
    -- reckoned as at its start; further, or after a change of the length, both count as this window's.
    load[6] = function(s)
        local limit, window, tick = s.a, s.b, s.c
        local start, prev, cur = now - now % window, 0, 0
        if s.value then
            local magic, version, w, b, p, c
            if #s.value == 34 then magic, version, w, b, p, c = read('<BBdddd', s.value) end
            if not (magic == 0xB1 and version == 0x16 and whole(w, 1, 4503599627370496)
                    and whole(b, 0, 9007199254740991) and b % w == 0 and whole(p, 0, 9007199254740991)
                    and whole(c, 0, 9007199254740991) and p + c > 0) then
                return false
            end
            if w ~= window or b - now > window then
                cur = min(c + p, 9007199254740991)
            elseif b >= start then
                start, prev, cur = b, p, c
            elseif b == start - window then
                prev = c
            end
        end
        s.start, s.prev, s.cur, s.left = start, prev, cur, 0
        if cur < limit then
            local ticks = window / tick
            local room = (limit - cur) * ticks
            local to_end = now <= start and ticks or ticks - floor((now - start) / tick)
            if prev == 0 or to_end <= floor(room / prev) then s.left = floor((room - prev * to_end) / ticks) end
        end
        return true
    end
    tell[6] = function(s)
        out[size + 1], out[size + 2], out[size + 3] = s.start, s.prev, s.cur
        size = size + 3
    end
    store[6] = function(s)
        local cur = s.cur + s.taken
        local lasts = cur > 0 and 2 or s.prev > 0 and 1 or 0
        if lasts == 0 then return nil, 0 end
        return pack('<BBdddd', 0xB1, 0x16, s.b, s.start, s.prev, cur), ceil((s.start - now + lasts * s.b) / 1000)
    end

    -- Sliding log (limit, window). Entries are found by halving, as their times rise and their units add up; those in
    -- between are copied as they are. Later than now by more than a window: they move to now. s.gone units have gone;
    -- those of the entries from s.first to before s.past are older than `at`, where at_units have been taken.
    local function log_entry(s, k)
        local when, sum = read('<dI', s.value, 12 * k - 5)
        return when, (sum - s.base) % 4294967296
    end

    -- The first entry from `from` on, before `past`, that passes; they all do after it.
    local function log_first(s, from, past, test)
        while from < past do
            local middle = floor((from + past) / 2)
            if test(log_entry(s, middle)) then past = middle else from = middle + 1 end
        end
        return from
    end

    load[5] = function(s)
        local limit, window, at, count, newest, total = s.a, s.b, now, 0, 0, 0
        s.base = 0
        if s.value then
            local magic, version
            if #s.value >= 18 and (#s.value - 6) % 12 == 0 then magic, version, s.base = read('<BBI', s.value) end
            if not (magic == 0xB1 and version == 0x15) then return false end
            count = (#s.value - 6) / 12
            newest, total = log_entry(s, count)
            if not (count <= 8192 and whole(newest, 0, 9007199254740991) and total >= count and total <= 8192
                    and whole(log_entry(s, 1), 0, newest)) then
                return false
            end
            if now < newest and newest - now <= window then at = newest end
        end
        local past = log_first(s, 1, count + 1, function(t) return t >= at end) -- at `at` and later: one entry, at it
        local first = log_first(s, 1, count + 1, function(t) return at - t < window end) -- those before have gone
        if first > past then first = past end
        local gone, older, newest_older = 0, 0, 0
        if first > 1 then gone = select(2, log_entry(s, first - 1)) end
        if past > first then
            newest_older, older = log_entry(s, past - 1)
            older = older - gone
        end
        local at_units = total - gone - older
        if not (gone >= 0 and older >= 0 and at_units >= 0 and whole(newest_older, 0, 9007199254740991)
                and (past == first or at - newest_older < window)) then
            return false -- entries in between that do not rise
        end
        s.first, s.past, s.gone, s.older, s.newest_older = first, past, gone, older, newest_older
        s.at, s.at_units = at, at_units
        s.left = limit - older - at_units
        return true
    end
    tell[5] = function(s)
        out[size + 1], out[size + 2], out[size + 3], out[size + 4] = s.at, s.at_units, s.older, s.newest_older
        size = size + 4
    end
    wait[5] = function(s, take)
        local need = s.gone + take - s.left
        local k = log_first(s, s.first, s.past, function(_, sum) return sum >= need end)
        local when = k < s.past and log_entry(s, k) or s.at
        return whole(when, 0, 9007199254740991) and when or nil
    end
    store[5] = function(s)
        local at_units = s.at_units + s.taken
        local last = at_units > 0 and s.at or s.older > 0 and s.newest_older
        if not last then return nil, 0 end
        local parts = {pack('<BBI', 0xB1, 0x15, (s.base + s.gone) % 4294967296)}
        if s.past > s.first then parts[2] = s.value:sub(12 * s.first - 5, 12 * s.past - 6) end
        if at_units > 0 then
            parts[#parts + 1] = pack('<dI', s.at, (s.base + s.gone + s.older + at_units) % 4294967296)
        end
        return table.concat(parts), ceil((last - now + s.b) / 1000)
    end

    -- Concurrency (limit, lease time). Stepped back before `at` by at most a lease time: `at` stays, and leases end
    -- when they were to; further: they move along.
    load[7] = function(s)
        local at, held, from, shift = now, 0, nil, 0
        if s.value then
            local magic, version
            if #s.value >= 46 then magic, version, at, held = read('<BBdd', s.value) end
            if not (magic == 0xB1 and version == 0x17 and whole(at, 0, 9007199254740991)
                    and whole(held, 1, 9007199254740991)) then
                return false
            end
            from = 19
        end
        if not load_holds(s, from, held) then return false end
        if from and hold_at(s, 1) <= at then return false end
        if now >= at then
            at = now
        elseif at - now > s.b then
            move(s, now - at)
            at = now
        end
        if not drop_ended(s) or at + s.b > 9007199254740992 then return false end
        s.at = at
        count_left(s)
        return true
    end
    tell[7] = function(s)
        out[size + 1], out[size + 2], out[size + 3], out[size + 4] = s.held, s.holds, s.latest, s.at
        size = size + 4
    end
    wait[7] = function(s, take) return freed(s, s.held - (s.a - take), s.holds - HOLDS_MOST + 1) end
    store[7] = function(s)
        if s.holds == 0 then return nil, 0 end
        return pack_holds(s, pack('<BBdd', 0xB1, 0x17, s.at, s.held)), ceil((s.latest - now) / 1000)
    end

    -- Charge a quota `amount`, whatever is left.
    local function charge(s, amount)
        s.used, s.taken = min(s.used + s.taken + amount, 9007199254740991), 0
        count_left(s)
    end

    -- Where a permit has left nothing it is as if the key were deleted, and found absent again.
    local function forget_if_empty(s)
        if s.holds > 0 then return end
        if s.kind == 7 then
            s.at = now
        elseif s.used + s.taken == 0 then
            s.start, s.stop = calendar(s.b, s.c - DAY)
        end
    end

    -- A quota with as many reservations as there may be.
    local function is_full(s) return s.kind == 4 and s.holds >= HOLDS_MOST end

    return {load = load, tell = tell, wait = wait, store = store, add_hold = add_hold, remove_hold = remove_hold,
            charge = charge, forget_if_empty = forget_if_empty, is_full = is_full}
end

local kinds -- make_kinds(), in calls that need it
