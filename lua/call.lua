-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: the call. Most of what calls ask is one acquire of a bucket that was used
-- before. That is decided here, with all it needs in locals and without a function: to call a function takes a tenth of
-- what a write does, to make one takes longer. What else is asked is decided by functions that are made in calls that
-- need them.

local i, k, last = 2, 0, #keys
while k < last do
    local kind, n, p, full, stop = ops[i], ops[i + 1], ops[i + 2], ops[i + 3], k
    if kind == 1 or kind == 2 then
        stop = k + ops[i + 4]
        i = i + 5
    elseif kind == 0 then
        make_steps()(i + 1, k)
        break
    else
        decide_others = decide_others or make_others()
        i, k = decide_others(i, k)
    end

    local per_ms = 1000 * n
    local alike = stop > k and pack('<I2d', 0x10B1 + 256 * kind, p) -- how the state of a bucket under this limit begins
    while k < stop do
        k = k + 1
        local key, value, op, left = keys[k], values[k], ops[i], full
        local head, units, at
        if value and op < -1 and #value == 26 then head, units, at = read('<c10dd', value) end
        if head == alike and units >= 0 and units <= full and at >= 0 and at <= now and units % 1 + at % 1 == 0 then
            units = units + (now - at) * n
            if units > full then units = full end
            left = units + op + 1
            if left < 0 then left = units end
        end
        if left < full then
            size, i = size + 1, i + 1
            local expiry = (full - left) / per_ms
            local ms, state = format('%d', expiry + -expiry % 1 + spare), pack('<c10dd', alike, left, now) -- rounded up
            local reply = pcall('PSETEX', key, ms, state)
            if reply.ok then
                written = true
                out[size] = units
            else
                keyspace = keyspace or make_keyspace()
                keyspace.unwritten(key, value, ms, state, reply) -- it was there, so this raises the error or is nil
                out[size] = -2
            end
        else
            decide_bucket = decide_bucket or make_buckets()
            i = decide_bucket(kind, key, value, i, n, p, full)
        end
    end
end
return pack('<' .. string.rep('d', size), unpack(out))
