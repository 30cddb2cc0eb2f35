-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: the steps, in calls that have such.
local function make_steps()
    keyspace = keyspace or make_keyspace()
    local ceil, pack, read = math.ceil, struct.pack, struct.unpack
    local absent, leave, load_bucket = keyspace.absent, keyspace.leave, keyspace.load_bucket
    local parameters = keyspace.parameters

    -- What is done with the states of other kinds than buckets, state_of[j] as in kinds.lua; and with their left_of.
    local function make_dealings(state_of, left_of)
        kinds = kinds or make_kinds()
        local min = math.min
        local dealings = {}

        -- What can be taken, or false.
        function dealings.load(j, value, row)
            local s = {kind = row[1], a = row[2], b = row[3], c = row[4], value = value, taken = 0}
            if not kinds.load[s.kind](s) then return false end
            kinds.tell[s.kind](s)
            state_of[j] = s
            dealings.has_waits = dealings.has_waits or kinds.wait[s.kind] ~= nil -- whether some tell their waits
            return s.left
        end

        function dealings.take(j, units, hold)
            local s = state_of[j]
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
        function dealings.is_full(j)
            return kinds.is_full(state_of[j])
        end

        function dealings.tell_waits(first, past, reserves)
            for at = first, past - 2, 2 do
                local j, units = ops[at], ops[at + 1]
                local s = state_of[j]
                local wait = s and kinds.wait[s.kind]
                if wait then
                    local fits = units == 0 or units <= s.left and not (reserves and kinds.is_full(s))
                    size = size + 1
                    out[size] = not fits and units <= s.a and (wait(s, units, reserves) or now) or 0
                end
            end
        end

        -- With a permit: release, renew, commit, refund. Returns the outcome, and whether it changes the key.
        function dealings.use_hold(op, j, id, amount, ends)
            local s = state_of[j]
            local units = kinds.remove_hold(s, id)
            local late = not units and op == 5 and now >= ends
            if not units and not late then return 0, false end
            if op == 4 then kinds.add_hold(s, s.at + s.b, units, id) end
            if op == 5 then kinds.charge(s, amount) end
            kinds.forget_if_empty(s)
            left_of[j] = s.left
            return late and 2 or 1, units or amount > 0
        end

        return dealings
    end

    -- The steps; ops[i] is the first run of their keys, the first of which is KEYS[before + 1]. Of each key, counted
    -- from 1: left_of, what can be taken, or false if it holds something else; row_of, its kind and parameters;
    -- written, whether it is to be; of a bucket that lags, as its clock stepped back, lag_of and at_of; of another kind
    -- state_of.
    local function take_steps(i, before)
        local ops, values, keys, out = ops, values, keys, out
        local left_of, row_of, written, lag_of, at_of, state_of = {}, {}, {}, {}, {}, {}
        local count, loaded, dealings = #keys - before, 0, nil

        while loaded < count do
            local kind, n, p, full = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
            local row, head = {kind, n, p, full}, 0x10B1 + 256 * kind
            i = i + 1 + parameters[kind]
            if kind > 2 then dealings = dealings or make_dealings(state_of, left_of) end
            for j = loaded + 1, loaded + ops[i] do
                local value, free, left, lag, at = values[before + j], true, full, 0, nil
                if not value then free = absent(keys[before + j]) end
                if not free then
                    left = false
                elseif kind > 2 then
                    left = dealings.load(j, value, row)
                elseif value then
                    left, lag, at = load_bucket(head, value, n, p, full)
                end
                left_of[j], row_of[j] = left or false, row
                if not left then
                    size = size + 1
                    out[size] = free == nil and -2 or -1
                elseif kind < 3 and lag == 0 then
                    size = size + 1
                    out[size] = left
                elseif kind < 3 then
                    lag_of[j], at_of[j] = lag, at
                    out[size + 1], out[size + 2], out[size + 3] = -3, left, lag
                    size = size + 3
                end
            end
            loaded = loaded + ops[i]
            i = i + 1
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
                    elseif at < past_real and units > 0
                        and (units > left or reserves and state_of[j] and dealings.is_full(j)) then
                        all = false
                    end
                end
                if good and dealings and dealings.has_waits then dealings.tell_waits(first, i, reserves) end
                if good and op == 1 then
                    for at = first, i - 2, 2 do
                        local j, units = ops[at], ops[at + 1]
                        local left, state = left_of[j], state_of[j]
                        if all and units <= left and units > 0
                            and not (reserves and state and dealings.is_full(j)) then
                            left = left - units
                            left_of[j] = left
                            if state then dealings.take(j, units, hold) end
                        end
                        -- A full bucket is forgotten, and with it that the clock stepped back.
                        if lag_of[j] and left == row_of[j][4] then at_of[j], lag_of[j] = nil, nil end
                        written[j] = true
                    end
                end
            else
                local j = hold
                if left_of[j] then
                    local outcome, changed = dealings.use_hold(op, j, ops[i + 2], ops[i + 3], ops[i + 4])
                    size = size + 1
                    out[size] = outcome
                    if changed then written[j] = true end
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
                    state = pack('<I2ddd', 0x10B1 + 256 * row[1], row[3], left, at_of[j] or now)
                    expiry = ceil((full - left + (lag_of[j] or 0)) / (1000 * row[2]))
                end
                if state or value then ok = leave(key, value, state, expiry) end
            end
            size = size + 1
            out[size] = ok and 0 or ok == nil and -2 or -1
        end
    end

    return take_steps
end
