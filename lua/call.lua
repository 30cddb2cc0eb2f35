-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: the call. Most calls are acquires of buckets, so these are decided here,
-- with all they need in locals and without a function: to call a function takes a tenth of what a write does, to make
-- one takes longer. What other entries and steps need is made in calls that have such.

local i, k, last = 2, 0, #keys
while k < last do
    local kind, n, p, full, stop = ops[i], ops[i + 1], ops[i + 2], ops[i + 3], k
    if kind == 1 or kind == 2 then
        stop = k + ops[i + 4]
        i = i + 5
    else
        if kind == 0 then
            make_steps()(i + 1, k)
            break
        end
        decide_others = decide_others or make_others()
        i, k = decide_others(i, k)
    end

    local head, per_ms = 0x10B1 + 256 * kind, 1000 * n
    local alike = stop > k and pack('<I2d', head, p) -- how the state of a bucket under this limit begins
    while k < stop do
        k = k + 1
        local key, value, op = keys[k], values[k], ops[i]
        i = i + 1
        if op == -1 then
            keyspace = keyspace or make_keyspace()
            size = size + 1
            out[size] = keyspace.reset(key, value)
        else
            local units, lag, at, ok = full, 0, now, true
            if value then
                local stored_alike, stored, stored_at
                if #value == 26 then stored_alike, stored, stored_at = read('<c10dd', value) end
                if stored_alike == alike and stored >= 0 and stored <= full and stored_at >= 0 and stored_at <= now
                    and stored % 1 + stored_at % 1 == 0 then
                    stored = stored + (now - stored_at) * n
                    if stored < full then units = stored end
                else
                    keyspace = keyspace or make_keyspace()
                    units, lag, at = keyspace.load_bucket(head, value, n, p, full)
                    ok = units ~= nil
                end
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
            if ok and op ~= 0 and left < full then
                local expiry, reply = (full - left + behind) / per_ms, nil
                local ms = format('%d', expiry + -expiry % 1 + spare) -- rounded up
                local state = pack('<c10dd', alike, left, at)
                if value then
                    reply = pcall('PSETEX', key, ms, state)
                else
                    reply = pcall('SET', key, state, 'PX', ms, 'NX')
                end
                if reply and reply.ok then
                    written = true
                else
                    keyspace = keyspace or make_keyspace()
                    ok = keyspace.unwritten(key, value, ms, state, reply)
                end
            elseif ok and (op ~= 0 or not value) then
                keyspace = keyspace or make_keyspace()
                if op ~= 0 then ok = keyspace.leave(key, value, nil, 0) else ok = keyspace.absent(key) end
            end
            size = size + 1
            if not ok then
                out[size] = ok == nil and -2 or -1
            elseif lag == 0 then
                out[size] = units
            else
                out[size], out[size + 1], out[size + 2] = -3, units, lag
                size = size + 2
            end
        end
    end
end
return pack('<' .. string.rep('d', size), unpack(out))
