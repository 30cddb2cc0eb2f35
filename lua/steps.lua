-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: entries of other kinds than buckets, and the steps.

local steps -- make_steps(), in calls that need it

local function make_steps()
    keyspace = keyspace or make_keyspace()
    local floor, ceil, min, pack, read = math.floor, math.ceil, math.min, struct.pack, struct.unpack
    local PARAMETERS = {3, 3, 2, 3, 2, 3, 2} -- of each kind
    local absent, leave, load_bucket = keyspace.absent, keyspace.leave, keyspace.load_bucket
    local kinds -- make_kinds(), in calls that need it

    -- An entry of another kind than a bucket. Returns where ops goes on.
    local function decide_other(kind, key, value, i, a, b, c)
        local op, begun, take, count = ops[i], size, nil, 1
        if op < 0 then op, take = 1, -1 - op end
        local past = take and i + 1 or i + 1 + 2 * op
        kinds = kinds or make_kinds()
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
                ok = leave(key, value, kinds.store[kind](s))
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

    -- The steps; ops[i] is the first run of their keys, the first of which is KEYS[before + 1]. Of each key, counted from
    -- 1: left_of, what can be taken, or false if it holds something else; row_of, its kind and parameters; written; of a
    -- bucket lag_of and at_of, of another kind state_of, as in kinds.lua. Written out for buckets, as decide_buckets is.
    local function take_steps(i, before)
        local ops, values, keys, out = ops, values, keys, out
        local left_of, row_of, written, lag_of, at_of, state_of = {}, {}, {}, {}, {}, {}
        local waits, count = false, #keys - before -- waits: some kinds among them tell their waits

        local function load_other(j, value, row)
            kinds = kinds or make_kinds()
            local s = {kind = row[1], a = row[2], b = row[3], c = row[4], value = value, taken = 0}
            if not kinds.load[s.kind](s) then return false end
            kinds.tell[s.kind](s)
            state_of[j] = s
            waits = waits or kinds.wait[s.kind] ~= nil
            return s.left
        end

        local loaded = 0
        while loaded < count do
            local kind, n, p, full = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
            local row, head = {kind, n, p, full}, 0x10B1 + 256 * kind
            i = i + 1 + PARAMETERS[kind]
            for j = loaded + 1, loaded + ops[i] do
                local value, free, left, lag, at = values[before + j], true, full, 0, now
                if not value then free = absent(keys[before + j]) end
                if not free then
                    left = false
                elseif kind > 2 then
                    left = load_other(j, value, row)
                elseif value then
                    left, lag, at = load_bucket(head, value, n, p, full)
                end
                left_of[j], lag_of[j], at_of[j], row_of[j], written[j] = left or false, lag, at, row, false
                if not left then
                    size = size + 1
                    out[size] = free == nil and -2 or -1
                elseif kind < 3 then
                    if lag > 0 then
                        out[size + 1], out[size + 2] = -3, left
                        size = size + 2
                    end
                    size = size + 1
                    out[size] = lag > 0 and lag or left
                end
            end
            loaded = loaded + ops[i]
            i = i + 1
        end

        local function take_other(j, s, units, hold)
            s.left = s.left - units
            local reserves = hold and s.kind == 4 and read('<d', hold, 13) or 0
            if reserves > 0 then
                kinds.add_hold(s, min(now + reserves, s.stop), units, hold:sub(1, 12))
            elseif s.kind == 7 then
                kinds.add_hold(s, s.at + s.b, units, hold:sub(1, 12))
            else
                s.taken = s.taken + units
            end
            left_of[j] = s.left
        end

        -- Is there no room for a reservation, whatever is left?
        local function is_full(j)
            return state_of[j] and kinds.is_full(state_of[j])
        end

        local function tell_waits(first, past, reserves)
            for at = first, past - 2, 2 do
                local j, units = ops[at], ops[at + 1]
                local s = state_of[j]
                local wait = s and kinds.wait[s.kind]
                if wait then
                    local fits = units == 0 or units <= s.left and not (reserves and is_full(j))
                    size = size + 1
                    out[size] = not fits and units <= s.a and (wait(s, units, reserves) or now) or 0
                end
            end
        end

        -- With a permit: release, renew, commit, refund. Returns the outcome.
        local function use_hold(op, j, id, amount, ends)
            local s = state_of[j]
            local units = kinds.remove_hold(s, id)
            local late = not units and op == 5 and now >= ends
            if not units and not late then return 0 end
            if op == 4 then kinds.add_hold(s, s.at + s.b, units, id) end
            if op == 5 then kinds.charge(s, amount) end
            kinds.forget_if_empty(s)
            left_of[j] = s.left
            if units or amount > 0 then written[j] = true end
            return late and 2 or 1
        end

        local past = #ops
        while i <= past do
            local op, hold = ops[i], ops[i + 1]
            if op < 3 then -- an acquire or a peek
                local first, past_real = i + 4, i + 4 + 2 * ops[i + 2]
                i = past_real + 2 * ops[i + 3]
                if hold == 0 then hold = nil end
                local reserves, good, all = hold and read('<d', hold, 13) > 0, true, true
                for at = first, i - 2, 2 do
                    local j, units = ops[at], ops[at + 1]
                    local left = left_of[j]
                    if not left then
                        good = false
                    elseif at < past_real and units > 0 and (units > left or reserves and is_full(j)) then
                        all = false
                    end
                end
                if good and waits then tell_waits(first, i, reserves) end
                if good and op == 1 then
                    for at = first, i - 2, 2 do
                        local j, units = ops[at], ops[at + 1]
                        local left = left_of[j]
                        if all and units <= left and units > 0 and not (reserves and is_full(j)) then
                            left = left - units
                            left_of[j] = left
                            if state_of[j] then take_other(j, state_of[j], units, hold) end
                        end
                        -- A full bucket is forgotten, and with it that the clock stepped back.
                        if lag_of[j] > 0 and left == row_of[j][4] then at_of[j], lag_of[j] = now, 0 end
                        written[j] = true
                    end
                end
            else
                local j = hold
                if left_of[j] then
                    size = size + 1
                    out[size] = use_hold(op, j, ops[i + 2], ops[i + 3], ops[i + 4])
                    kinds.tell[state_of[j].kind](state_of[j])
                end
                i = i + (op == 5 and 5 or 3)
            end
        end

        for j = 1, count do
            local ok = true
            if written[j] then
                local key, value, row, s = keys[before + j], values[before + j], row_of[j], state_of[j]
                local left, full, state, expiry = left_of[j], row[4], nil, 0
                if s then
                    state, expiry = kinds.store[s.kind](s)
                elseif left < full then
                    state = pack('<I2ddd', 0x10B1 + 256 * row[1], row[3], left, at_of[j])
                    expiry = ceil((full - left + lag_of[j]) / (1000 * row[2]))
                end
                if state or value then ok = leave(key, value, state, expiry) end
            end
            size = size + 1
            out[size] = ok and 0 or ok == nil and -2 or -1
        end
    end

    -- The entries of the keys under one limit that is none of a bucket, from KEYS[k + 1] on; ops[i] is the kind. Returns
    -- where ops and the keys go on.
    local function decide_others(i, k)
        local kind, a, b, c = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
        i = i + 1 + PARAMETERS[kind]
        local stop = k + ops[i]
        i = i + 1
        for k = k + 1, stop do
            if ops[i] == -1 then
                size = size + 1
                out[size] = keyspace.reset(keys[k], values[k])
                i = i + 1
            else
                i = decide_other(kind, keys[k], values[k], i, a, b, c)
            end
        end
        return i, stop
    end

    return {decide = decide_others, take = take_steps}
end
