-- SPDX-License-Identifier: BSD-3-Clause
-- The least that a script can do which reads and writes many keys in one call: nothing is checked, no answer is given.
--
-- KEYS     any; each is there, or is made
-- ARGV     milliseconds until they expire; what a key that is not there is to hold, 26 bytes; "as it was": each is written
--          as it was read; "anew": what was read is unpacked into its numbers, as much is added to one of them as
--          microseconds went by, and they are packed again with the time of now; the expiry, which follows from that
--          number, is written out. So values and expiries differ from key to key, as with a real limit, once each key was
--          in two calls.
-- Reply    nothing
-- Clock    TIME, once, for "anew"
local call, pack, read, format = redis.call, struct.pack, struct.unpack, string.format
local values = call('MGET', unpack(KEYS))
local expiry, new, anew = ARGV[1], ARGV[2], ARGV[3] == 'anew'
local later, now = expiry + 0, 0
if anew then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
for i, key in ipairs(KEYS) do
    local value = values[i] or new
    if anew then
        local head, units, at = read('<c10dd', value)
        units = units + (now - at)
        if units >= later then units = 0 end
        value = pack('<c10dd', head, units, now)
        expiry = format('%d', later - units)
    end
    call('PSETEX', key, expiry, value)
end
