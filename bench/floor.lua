-- SPDX-License-Identifier: BSD-3-Clause
-- The least that a script can do which reads and writes many keys in one call: no clock, nothing reckoned, nothing checked.
--
-- KEYS     any; each is there, or is made
-- ARGV     milliseconds until they expire; what a key that is not there is to hold, 26 bytes; "as it was": each is written
--          as it was read; "anew": what was read is unpacked into its numbers, and these are packed again, one of them
--          changed, and the expiry is written out, another one for each key
-- Reply    nothing
local call, pack, read, format = redis.call, struct.pack, struct.unpack, string.format
local values = call('MGET', unpack(KEYS))
local expiry, new, anew = ARGV[1], ARGV[2], ARGV[3] == 'anew'
local later = expiry + 0
for i, key in ipairs(KEYS) do
    local value = values[i] or new
    if anew then
        local head, units, at = read('<c10dd', value)
        value = pack('<c10dd', head, units + 1, at)
        expiry = format('%d', later + units)
    end
    call('PSETEX', key, expiry, value)
end
