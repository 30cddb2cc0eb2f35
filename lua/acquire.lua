-- SPDX-License-Identifier: BSD-3-Clause
-- Decide a batch of acquires, peeks and resets under limits of any kind, on this server's clock.
--
-- KEYS     1 to 256 distinct keys, one state each.
-- ARGV[1]  a MessagePack array of integers: the call's number, then for each run of keys under the same limit its kind,
--              1, 2  token bucket, leaky bucket   n, p, full    n units return each microsecond, p units are one token,
--                                                               full = capacity*p
--              3     fixed window                 limit, window in microseconds
--              4     quota                        limit, per (1 hour, 2 day, 3 week, 4 month), offset + one day in us
--              5     sliding log                  limit, window
--              6     sliding window               limit, window, tick in us
--          the number of keys, and for each of those keys
--              -1                    reset: delete it
--              0                     peek: read only
--              m, then m * (units, count)     acquires: `count` times in a row take `units` if they are there; units = 0,
--                                             only first, is an acquire that takes nothing but is written all the same.
--                                             Of a sliding log count = 0 is a peek of that cost
-- Reply    one string of little-endian doubles: now in microseconds, the call's number, then for each key what was found,
--          before anything is taken, from which follows what each acquire gets:
--              bucket          units, lag
--              window, quota   used, end
--              sliding window  start, prev, cur
--              sliding log     at, units at it, older units, newest older time, then for each of the m runs when what a
--                              denial of it waits for was taken, 0 if nothing of it was denied
--              reset           1 or 0: there was, was not, something to forget
--              -1 alone        the key holds something else: nothing taken, nothing written
--              -2 alone        a command on the key was refused after other keys had been written: the same
-- Clock    TIME, once. What happens after it stepped back is said with each kind; nothing is ever minted.
-- State    0xB1, 0x10 + kind (version 1), then doubles; of a sliding log the units before its first entry, as 32 bits, and
--          for each entry its time (a double) and all units up to and with it (32 bits, which may wrap).
-- Expiry   when nothing that was taken counts any more, on Redis 8 up to a millisecond later; what is at that point already is deleted.
--
-- All numbers are integers below 2^53, so doubles are exact, and floor and ceil of a quotient are too: x/d with
-- x < 2^53 never rounds across an integer. A product that may exceed 2^53 is only compared with a smaller number.
-- Every check of a key comes before its one write.

if redis.replicate_commands then redis.replicate_commands() end -- before Redis 7, if configured otherwise

local call, floor, ceil, min = redis.call, math.floor, math.ceil, math.min
local pack, read, format = struct.pack, struct.unpack, string.format

local ops = cmsgpack.unpack(ARGV[1])
local values = call('MGET', unpack(KEYS))
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local out, size = {now, ops[1]}, 2 -- size: of out

-- A command on one key was refused. Before anything was written it is given once more, to raise its error, with nothing charged;
-- afterwards it must not undo what other keys were told: nil.
local pcall, written = redis.pcall, false
local function refused(...)
    if not written then call(...) end
    return nil
end

-- MGET shows a key of another type as absent: is it really? nil: refused.
local function absent(key)
    local exists = pcall('EXISTS', key)
    if type(exists) == 'table' then return refused('EXISTS', key) end
    return exists == 0
end

local function delete(key)
    if type(pcall('DEL', key)) == 'table' then return refused('DEL', key) end
    written = true
    return true
end

local function reset(key, value)
    if value then
        if #value < 2 or value:byte() ~= 0xB1 then return -1 end
        return delete(key) and 1 or -2
    end
    local free = absent(key)
    if free == nil then return -2 end
    return free and 0 or -1
end

-- Redis 8 drops a key as soon as the millisecond begins in which it expires, others once that is over. As the expiry counts
-- from the beginning of this millisecond, it would come up to a millisecond early there.
local spare = (redis.REDIS_VERSION_NUM or 0) >= 0x070300 and now % 1000 > 0 and 1 or 0

-- Write what a key has become, or delete it where nothing is left to remember. False: it holds something else; nil: refused.
local function write(key, value, state, expiry)
    if expiry == 0 then
        if value then return delete(key) end
        return absent(key)
    end
    local ms, reply = format('%d', expiry + spare), nil
    if value then
        reply = pcall('PSETEX', key, ms, state)
    else
        reply = pcall('SET', key, state, 'PX', ms, 'NX')
        if not reply then return false end
    end
    if reply.ok then
        written = true
        return true
    end
    if value then return refused('PSETEX', key, ms, state) end
    return refused('SET', key, state, 'PX', ms, 'NX')
end

-- units, p and at of a stored bucket; nil if it is not one of this kind.
local function bucket(value, kind)
    if #value ~= 26 then return nil end
    local magic, version, p, units, at = read('<BBddd', value)
    if magic == 0xB1 and version == 0x10 + kind
        and p >= 1 and p <= 9007199254740991 and p % 1 == 0
        and units >= 0 and units <= 4503599627370496 and units % 1 == 0
        and at >= 0 and at <= 9007199254740991 and at % 1 == 0 then
        return units, p, at
    end
end

-- Token and leaky buckets. `at` is the moment up to which a bucket has been refilled; when the clock stepped back, by at
-- most one fill time, `at` stays ahead of it and lag = (at - now)*n units must pass before anything returns.
-- Returns where ops goes on.
local function decide_bucket(kind, key, value, i, n, p, full)
    local op = ops[i]
    local units, lag, at = full, 0, now
    if value then
        local stored_p, stored_at
        units, stored_p, stored_at = bucket(value, kind)
        if not units then
            size = size + 1
            out[size] = -1
            return i + 1 + 2 * op
        end
        if stored_p ~= p then -- live change: whole tokens stay exact
            local tokens = floor(units / stored_p)
            local rest = units - tokens * stored_p
            units = tokens * p + min(p - 1, floor(rest / stored_p * p))
        end
        if now < stored_at and (stored_at - now) * n <= full then
            at = stored_at
            lag = (at - now) * n
            units = min(full, units)
        else
            units = min(full, units + (now > stored_at and (now - stored_at) * n or 0))
        end
    end
    local ok = true
    if op == 0 then
        ok = value or absent(key)
    else
        local left, behind = units, lag
        for j = i + 1, i + 2 * op - 1, 2 do
            local take = ops[j]
            if take == 0 then
                if left == full then at, behind = now, 0 end -- it would be deleted, and found absent again
            elseif take <= left then
                local count = ops[j + 1]
                left = left - (count == 1 and 1 or min(count, floor(left / take))) * take
            end
        end
        local expiry = left < full and ceil((full - left + behind) / (1000 * n)) or 0
        ok = write(key, value, expiry > 0 and pack('<BBddd', 0xB1, 0x10 + kind, p, left, at), expiry)
    end
    if ok then
        out[size + 1], out[size + 2] = units, lag
        size = size + 2
    else
        size = size + 1
        out[size] = ok == nil and -2 or -1
    end
    return i + 1 + 2 * op
end

-- The other kinds; made only in calls that need them. Returns a function like decide_bucket.
local function windows()
    local DAY, HOUR = 86400000000, 3600000000

    local function whole(x, least, most)
        return x >= least and x <= most and x % 1 == 0
    end

    -- What of `left` is taken by the runs from ops[j] to ops[last].
    local function take_runs(j, last, left)
        local taken = 0
        while j < last do
            local take = ops[j]
            if take > 0 and take <= left then
                local m = min(ops[j + 1], floor(left / take))
                left, taken = left - m * take, taken + m * take
            end
            j = j + 2
        end
        return taken
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

    -- Fixed window and quota. Stepped back before the window by more than its length: the window of now, used stays.
    local function fixed(kind, key, value, i, limit, a, b)
        local op = ops[i]
        local start, stop, used
        if value then
            local magic, version
            if #value == 26 then magic, version, start, stop, used = read('<BBddd', value) end
            if not (magic == 0xB1 and version == 0x10 + kind and whole(start, -4398046511104, 9007199254740991)
                    and whole(stop, start + 1, 9007199254740992) and whole(used, 1, 9007199254740991)) then
                return false
            end
            if now >= stop then used = nil end
        end
        if not used or start - now > stop - start then
            if kind == 4 then
                start, stop = calendar(a, b - DAY)
            else
                start = now - now % a
                stop = start + a
            end
        end
        used = used or 0
        out[size + 1], out[size + 2] = used, stop
        size = size + 2
        if op == 0 then return value or absent(key) end
        used = used + take_runs(i + 1, i + 2 * op, limit - used)
        return write(key, value, used > 0 and pack('<BBddd', 0xB1, 0x10 + kind, start, stop, used),
                     used > 0 and ceil((stop - now) / 1000) or 0)
    end

    -- Sliding window: two counters. Stepped back before the window by at most its length: reckoned as at its start; further,
    -- or after a change of the length, both count as this window's.
    local function sliding(kind, key, value, i, limit, window, tick)
        local op = ops[i]
        local start, prev, cur = now - now % window, 0, 0
        if value then
            local magic, version, w, s, p, c
            if #value == 34 then magic, version, w, s, p, c = read('<BBdddd', value) end
            if not (magic == 0xB1 and version == 0x16 and whole(w, 1, 4503599627370496) and whole(s, 0, 9007199254740991)
                    and s % w == 0 and whole(p, 0, 9007199254740991) and whole(c, 0, 9007199254740991) and p + c > 0) then
                return false
            end
            if w ~= window or s - now > window then
                cur = min(c + p, 9007199254740991)
            elseif s >= start then
                start, prev, cur = s, p, c
            elseif s == start - window then
                prev = c
            end
        end
        out[size + 1], out[size + 2], out[size + 3] = start, prev, cur
        size = size + 3
        if op == 0 then return value or absent(key) end
        local ticks, left = window / tick, 0
        if cur < limit then
            local room = (limit - cur) * ticks
            local to_end = now <= start and ticks or ticks - floor((now - start) / tick)
            if prev == 0 or to_end <= floor(room / prev) then left = floor((room - prev * to_end) / ticks) end
        end
        cur = cur + take_runs(i + 1, i + 2 * op, left)
        local lasts = cur > 0 and 2 or prev > 0 and 1 or 0
        return write(key, value, lasts > 0 and pack('<BBdddd', 0xB1, 0x16, window, start, prev, cur),
                     lasts > 0 and ceil((start - now + lasts * window) / 1000) or 0)
    end

    -- Sliding log. Entries are found by halving, as their times rise and their units add up; those in between are copied
    -- as they are. Later than now by more than a window: they move to now.
    local function log(kind, key, value, i, limit, window)
        local op = ops[i]
        local count, base, at = 0, 0, now
        local function entry(k)
            local t, sum = read('<dI', value, 12 * k - 5)
            return t, (sum - base) % 4294967296
        end
        local function first(from, test) -- the first entry from `from` on that passes; they all do after it
            local past = count + 1
            while from < past do
                local middle = floor((from + past) / 2)
                if test(entry(middle)) then past = middle else from = middle + 1 end
            end
            return from
        end
        local newest, total = 0, 0
        if value then
            local magic, version
            if #value >= 18 and (#value - 6) % 12 == 0 then magic, version, base = read('<BBI', value) end
            if not (magic == 0xB1 and version == 0x15) then return false end
            count = (#value - 6) / 12
            newest, total = entry(count)
            if not (count <= 8192 and whole(newest, 0, 9007199254740991) and total >= count and total <= 8192
                    and whole(entry(1), 0, newest)) then
                return false
            end
            if now < newest and newest - now <= window then at = newest end
        end
        local stop = first(1, function(t) return t >= at end)                -- at `at` and later: one entry, at it
        local begin = first(1, function(t) return at - t < window end)       -- those before have gone
        if begin > stop then begin = stop end
        local gone, older, newest_older = 0, 0, 0
        if begin > 1 then gone = select(2, entry(begin - 1)) end
        if stop > begin then
            newest_older, older = entry(stop - 1)
            older = older - gone
        end
        local at_units = total - gone - older
        if not (gone >= 0 and older >= 0 and at_units >= 0 and whole(newest_older, 0, 9007199254740991)
                and (stop == begin or at - newest_older < window)) then
            return false -- entries in between that do not rise
        end
        out[size + 1], out[size + 2], out[size + 3], out[size + 4] = at, at_units, older, newest_older
        size = size + 4
        if op == 0 then return value or absent(key) end
        local writes = false
        for j = i + 1, i + 2 * op - 1, 2 do
            local take, times = ops[j], ops[j + 1]
            local left = limit - older - at_units
            local m = 0
            if take == 0 or times > 0 then writes = true end
            if take > 0 and take <= left then m = min(times, floor(left / take)) end
            at_units = at_units + m * take
            local waits_for = 0
            if take > 0 and (m < times or (times == 0 and take > left)) then
                local need = gone + older + at_units + take - limit
                local k = first(begin, function(_, sum) return sum >= need end)
                waits_for = k < stop and entry(k) or at
                if not whole(waits_for, 0, 9007199254740991) then return false end
            end
            size = size + 1
            out[size] = waits_for
        end
        if not writes then return value or absent(key) end
        local parts = {pack('<BBI', 0xB1, 0x15, (base + gone) % 4294967296)}
        if stop > begin then parts[2] = value:sub(12 * begin - 5, 12 * stop - 6) end
        if at_units > 0 then parts[#parts + 1] = pack('<dI', at, (base + gone + older + at_units) % 4294967296) end
        local last = at_units > 0 and at or older > 0 and newest_older or nil
        return write(key, value, last and table.concat(parts), last and ceil((last - now + window) / 1000) or 0)
    end

    local by_kind = {[3] = fixed, [4] = fixed, [5] = log, [6] = sliding}
    return function(kind, key, value, i, a, b, c)
        local begun = size
        local ok = by_kind[kind](kind, key, value, i, a, b, c)
        if not ok then
            for n = size, begun + 1, -1 do out[n] = nil end
            size = begun + 1
            out[size] = ok == nil and -2 or -1
        end
        return i + 1 + 2 * ops[i]
    end
end

local PARAMETERS = {3, 3, 2, 3, 2, 3}
local decide_window
local i, k, last = 2, 0, #KEYS
while k < last do
    local kind, a, b, c = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
    i = i + 1 + PARAMETERS[kind]
    local stop = k + ops[i]
    local decide = decide_bucket
    i = i + 1
    if kind > 2 then
        decide_window = decide_window or windows()
        decide = decide_window
    end
    while k < stop do
        k = k + 1
        if ops[i] < 0 then
            size = size + 1
            out[size] = reset(KEYS[k], values[k])
            i = i + 1
        else
            i = decide(kind, KEYS[k], values[k], i, a, b, c)
        end
    end
end
return pack('<' .. string.rep('d', size), unpack(out))
