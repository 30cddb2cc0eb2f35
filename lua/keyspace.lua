-- SPDX-License-Identifier: BSD-3-Clause
-- Part of the script that acquire.lua begins: keys that are not simply read and written, and what others and steps
-- share, in calls that have such.
local function make_keyspace()
    local call, pcall, type, format = redis.call, redis.pcall, type, string.format
    local floor, min, read = math.floor, math.min, struct.unpack

    -- A command on one key was refused. Before anything was written it is given once more, to raise its error, with
    -- nothing charged; afterwards it must not undo what other keys were told: nil.
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

    -- A key could not be written, as this reply says. False: it holds something else; nil: refused.
    local function unwritten(key, value, ms, state, reply)
        if value then return refused('PSETEX', key, ms, state) end
        if reply then return refused('SET', key, state, 'PX', ms, 'NX') end
        return false
    end

    -- Write what a key has become, or delete it where nothing is left to remember. True; false or nil
    -- where it could not be, as above.
    local function leave(key, value, state, expiry)
        if expiry == 0 then
            if value then return delete(key) end
            return absent(key)
        end
        local ms, reply = format('%d', expiry + spare), nil
        if value then
            reply = pcall('PSETEX', key, ms, state)
        else
            reply = pcall('SET', key, state, 'PX', ms, 'NX')
        end
        if not reply or not reply.ok then return unwritten(key, value, ms, state, reply) end
        written = true
        return true
    end

    -- units, lag and at of the bucket stored as `value`, where `at` is the moment up to which it has been refilled;
    -- when the clock stepped back, by at most one fill time, it stays ahead and lag = (at - now)*n units must pass
    -- before anything returns. nil: it holds something else.
    local function load_bucket(head, value, n, p, full)
        local stored_head, stored_p, units, at
        if #value == 26 then stored_head, stored_p, units, at = read('<I2ddd', value) end
        if not (stored_head == head and units >= 0 and units <= 4503599627370496 and units % 1 == 0
                and at >= 0 and at <= 9007199254740991 and at % 1 == 0
                and (stored_p == p or stored_p >= 1 and stored_p <= 9007199254740991 and stored_p % 1 == 0)) then
            return nil
        end
        if stored_p ~= p then -- live change: whole tokens stay exact
            local tokens = floor(units / stored_p)
            units = tokens * p + min(p - 1, floor((units - tokens * stored_p) / stored_p * p))
        end
        local ahead = 0
        if now >= at then
            units = units + (now - at) * n
            at = now
        elseif (at - now) * n <= full then
            ahead = (at - now) * n
        else
            at = now
        end
        if units > full then units = full end
        return units, ahead, at
    end

    local parameters = {3, 3, 2, 3, 2, 3, 2} -- how many a limit of each kind has

    return {absent = absent, reset = reset, leave = leave, unwritten = unwritten, load_bucket = load_bucket,
            parameters = parameters}
end

local keyspace -- make_keyspace(), in calls that need it
