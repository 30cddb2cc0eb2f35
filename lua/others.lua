-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: entries of other kinds than buckets, in calls that have such.
local function make_others()
    keyspace = keyspace or make_keyspace()
    kinds = kinds or make_kinds()
    local floor, min = math.floor, math.min
    local absent, leave, parameters = keyspace.absent, keyspace.leave, keyspace.parameters

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

    -- The entries of the keys under one limit that is no bucket, from KEYS[k + 1] on; ops[i] is the kind. Returns where
    -- ops and the keys go on.
    local function decide_others(i, k)
        local kind, a, b, c = ops[i], ops[i + 1], ops[i + 2], ops[i + 3]
        i = i + 1 + parameters[kind]
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

    return decide_others
end

local decide_others -- make_others(), in calls that need it
