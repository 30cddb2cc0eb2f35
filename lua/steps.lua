-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: the other kinds' entries, the steps, and the call itself.

local kinds -- make_kinds(), in calls that need it

-- An entry of another kind than a bucket. Returns where ops goes on.
local function decide_other(kind, key, value, i, a, b, c)
    local op, begun, take, count = ops[i], size, nil, 1
    if op < 0 then op, take = 1, -1 - op end
    local past = take and i + 1 or i + 1 + 2 * op
    local s = {kind = kind, value = value, a = a, b = b, c = c, taken = 0}
    local ok = kinds.load[kind](s) and true
    if ok then
        kinds.tell[kind](s)
        local wait, writes = kinds.wait[kind], false
        for j = i + 1, i + 2 * op - 1, 2 do
            local m = 0
            if past > i + 1 then take, count = ops[j], ops[j + 1] end
            if take == 0 or count > 0 then writes = true end
            if take > 0 and take <= s.left then m = min(count, floor(s.left / take)) end
            s.left, s.taken = s.left - m * take, s.taken + m * take
            if wait then
                size = size + 1
                out[size] = 0
                if take > s.left and (m < count or count == 0) then
                    out[size] = wait(s, take)
                    ok = ok and out[size] ~= nil
                end
            end
        end
        if ok and writes then
            ok = write(key, value, kinds.store[kind](s))
        elseif ok then
            ok = value or absent(key)
        end
    end
    if not ok then
        for n = size, begun + 1, -1 do out[n] = nil end
        size = begun + 1
        out[size] = ok == nil and -2 or -1
    end
    return past
end

local PARAMETERS = {3, 3, 2, 3, 2, 3, 2}

-- All steps; ops[i] is the first run of their keys, the first of which is KEYS[k + 1].
local function take_steps(i, k)
    local states = {}

    local function load_key(key, value, kind, a, b, c)
        local s = {kind = kind, key = key, value = value, a = a, b = b, c = c, taken = 0}
        local free = value or absent(key)
        if free and kinds.load[kind](s) then
            kinds.tell[kind](s)
        else
            s.bad = free == nil and -2 or -1
            size = size + 1
            out[size] = s.bad
        end
        states[#states + 1] = s
    end

    local last = #KEYS
    while k < last do
        local kind, a, b, c = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
        i = i + 1 + PARAMETERS[kind]
        for n = k + 1, k + ops[i] do load_key(KEYS[n], values[n], kind, a, b, c) end
        k = k + ops[i]
        i = i + 1
    end

    -- What an acquire that is written leaves of a bucket: a full one is forgotten, and with it that the clock stepped
    -- back.
    local function keep(s)
        s.written = true
        if s.kind < 3 and s.left == s.c then s.at, s.lag = now, 0 end
    end

    local function take(s, units, hold)
        s.left = s.left - units
        local reserves = hold and s.kind == 4 and read('<d', hold, 13) or 0
        if reserves > 0 then
            kinds.add_hold(s, min(now + reserves, s.stop), units, hold:sub(1, 12))
        elseif s.kind == 7 then
            kinds.add_hold(s, s.at + s.b, units, hold:sub(1, 12))
        else
            s.taken = s.taken + units
        end
    end

    local function acquire(from)
        local op, hold, m = ops[from], ops[from + 1], ops[from + 2]
        local first, past = from + 4, from + 4 + 2 * (m + ops[from + 3])
        hold = hold ~= 0 and hold or nil
        local reserves = hold and read('<d', hold, 13) > 0
        for j = first, past - 2, 2 do
            if states[ops[j]].bad then return past end
        end
        local fits, all = {}, true
        for j = first, past - 2, 2 do
            local s, units = states[ops[j]], ops[j + 1]
            fits[j] = units == 0 or units <= s.left and not (reserves and kinds.is_full(s))
            if not fits[j] and j < first + 2 * m then all = false end
            local wait = kinds.wait[s.kind]
            if wait then
                size = size + 1
                out[size] = not fits[j] and units <= s.a and (wait(s, units, reserves) or now) or 0
            end
        end
        if op == 1 then
            for j = first, past - 2, 2 do
                local s, units = states[ops[j]], ops[j + 1]
                if all and fits[j] and units > 0 then take(s, units, hold) end
                keep(s)
            end
        end
        return past
    end

    -- With a permit: release, renew, commit, refund. Returns the outcome.
    local function use_hold(op, s, id, amount, ends)
        local units = kinds.remove_hold(s, id)
        local late = not units and op == 5 and now >= ends
        if not units and not late then return 0 end
        if op == 4 then kinds.add_hold(s, s.at + s.b, units, id) end
        if op == 5 then kinds.charge(s, amount) end
        kinds.forget_if_empty(s)
        if units or amount > 0 then s.written = true end
        return late and 2 or 1
    end

    local past = #ops
    while i <= past do
        local op = ops[i]
        if op < 3 then
            i = acquire(i)
        else
            local s = states[ops[i + 1]]
            if not s.bad then
                size = size + 1
                out[size] = use_hold(op, s, ops[i + 2], ops[i + 3], ops[i + 4])
                kinds.tell[s.kind](s)
            end
            i = i + (op == 5 and 5 or 3)
        end
    end
    for _, s in ipairs(states) do
        local ok = true
        if s.written then
            local state, expiry = kinds.store[s.kind](s)
            if state or s.value then ok = write(s.key, s.value, state, expiry) end
        end
        size = size + 1
        out[size] = ok and 0 or ok == nil and -2 or -1
    end
end

local i, k, last = 2, 0, #KEYS
while k < last do
    local kind, a, b, c = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
    if kind ~= 1 and kind ~= 2 then kinds = kinds or make_kinds() end
    if kind == 0 then
        take_steps(i + 1, k)
        break
    end
    i = i + 1 + PARAMETERS[kind]
    local stop = k + ops[i]
    i = i + 1
    if kind < 3 then
        i = decide_buckets(kind, k, stop - k, i, a, b, c)
        k = stop
    end
    while k < stop do
        k = k + 1
        if ops[i] == -1 then
            size = size + 1
            out[size] = reset(KEYS[k], values[k])
            i = i + 1
        else
            i = decide_other(kind, KEYS[k], values[k], i, a, b, c)
        end
    end
end
return pack('<' .. string.rep('d', size), unpack(out))
