-- SPDX-License-Identifier: BSD-3-Clause
-- Decide a batch of acquires, peeks and resets under token buckets, on this server's clock.
--
-- KEYS     1 to 256 distinct keys, one bucket each.
-- ARGV[1]  a MessagePack array of integers: the call's number, then for each run of keys under the same limit
--              n, p, full, keys      n units return each microsecond, p units are one token, full = capacity*p
--          and after it for each of those keys
--              -1                    reset: delete it
--              0                     peek: read only
--              m, then m * (units, count)     acquires: `count` times in a row take `units` if they are there; units = 0,
--                                             only first, is an acquire that takes nothing but is written all the same
-- Reply    one string of little-endian doubles: now in microseconds, the call's number, then for each key two:
--              units, lag            as found, before anything is taken: what each acquire gets follows from these
--              1 or 0, 0             reset: there was, was not, something to forget
--              -1, 0                 the key holds something else: nothing taken, nothing written
-- Clock    TIME, once. `at` is the moment up to which a bucket has been refilled; when the clock stepped back, by at
--          most one fill time, `at` stays ahead of it and lag = (at - now)*n units must pass before anything returns.
-- State    0xB1, 0x11 (version 1, kind 1), p, units, at as doubles: 26 bytes.
-- Expiry   when the bucket is full; a full bucket is deleted.
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
local out = {now, ops[1]}

-- units, p and at of a stored bucket; nil if it is not one.
local function decode(value)
    if #value ~= 26 then return nil end
    local magic, kind, p, units, at = read('<BBddd', value)
    if magic == 0xB1 and kind == 0x11
        and p >= 1 and p <= 9007199254740991 and p % 1 == 0
        and units >= 0 and units <= 4503599627370496 and units % 1 == 0
        and at >= 0 and at <= 9007199254740991 and at % 1 == 0 then
        return units, p, at
    end
end

-- MGET shows a key of another type as absent: is it really?
local function absent(key)
    return call('EXISTS', key) == 0
end

local function reset(key, value)
    if value then
        if #value < 2 or value:byte() ~= 0xB1 then return -1 end
        call('DEL', key)
        return 1
    end
    return absent(key) and 0 or -1
end

local i, k, last = 2, 0, #KEYS
while k < last do
    local n, p, full = ops[i], ops[i + 1], ops[i + 2]
    local stop = k + ops[i + 3]
    i = i + 4
    while k < stop do
        k = k + 1
        local key, value, op = KEYS[k], values[k], ops[i]
        i = i + 1
        local units, lag = full, 0
        if op < 0 then
            units = reset(key, value)
        else
            local at = now
            if value then
                local stored_p, stored_at
                units, stored_p, stored_at = decode(value)
                if units then
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
                else
                    units = -1
                end
            elseif op == 0 and not absent(key) then
                units = -1
            end
            if units < 0 then
                i = i + 2 * op
            elseif op > 0 then
                local left, behind = units, lag
                for j = i, i + 2 * op - 2, 2 do
                    local take = ops[j]
                    if take == 0 then
                        if left == full then at, behind = now, 0 end -- it would be deleted, and found absent again
                    elseif take <= left then
                        local count = ops[j + 1]
                        left = left - (count == 1 and 1 or min(count, floor(left / take))) * take
                    end
                end
                i = i + 2 * op
                local expiry = 0
                if left < full then expiry = ceil((full - left + behind) / (1000 * n)) end
                if expiry == 0 then
                    if value then
                        call('DEL', key)
                    elseif not absent(key) then
                        units = -1
                    end
                elseif value then
                    call('PSETEX', key, format('%d', expiry), pack('<BBddd', 0xB1, 0x11, p, left, at))
                elseif not call('SET', key, pack('<BBddd', 0xB1, 0x11, p, left, at), 'PX', format('%d', expiry), 'NX') then
                    units = -1
                end
            end
        end
        out[2 * k + 1], out[2 * k + 2] = units, units < 0 and 0 or lag
    end
end
return pack('<' .. string.rep('d', #out), unpack(out))
