-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: entries of buckets, where call.lua does not decide them itself.
local function make_buckets()
    keyspace = keyspace or make_keyspace()
    local floor, ceil, min, pack = math.floor, math.ceil, math.min, struct.pack
    local absent, reset, leave, load_bucket = keyspace.absent, keyspace.reset, keyspace.leave, keyspace.load_bucket

    -- ops[i] is the entry's. Returns where ops goes on.
    local function decide_bucket(kind, key, value, i, n, p, full)
        local op, head = ops[i], 0x10B1 + 256 * kind
        size, i = size + 1, i + 1
        if op == -1 then
            out[size] = reset(key, value)
            return i
        end
        local units, lag, at, ok = full, 0, now, true
        if value then
            units, lag, at = load_bucket(head, value, n, p, full)
            ok = units ~= nil
        end
        local left, behind = units, lag
        if op < 0 then
            if ok and left + op >= -1 then left = left + op + 1 end
        else
            for j = i, i + 2 * op - 2, 2 do
                local take = ops[j]
                if not ok then
                    break
                elseif take == 0 then
                    if left == full then at, behind = now, 0 end -- it would be deleted, and found absent again
                elseif take <= left then
                    left = left - min(ops[j + 1], floor(left / take)) * take
                end
            end
            i = i + 2 * op
        end
        if ok and op == 0 then
            ok = value or absent(key)
        elseif ok and left == full then
            ok = leave(key, value, nil, 0)
        elseif ok then
            ok = leave(key, value, pack('<I2ddd', head, p, left, at), ceil((full - left + behind) / (1000 * n)))
        end
        if not ok then
            out[size] = ok == nil and -2 or -1
        elseif lag == 0 then
            out[size] = units
        else
            out[size], out[size + 1], out[size + 2] = -3, units, lag
            size = size + 2
        end
        return i
    end

    return decide_bucket
end

local decide_bucket -- make_buckets(), in calls that need it
