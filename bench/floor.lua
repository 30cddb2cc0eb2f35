-- SPDX-License-Identifier: BSD-3-Clause
-- The least that a script can do which reads and writes many keys in one call: no clock, nothing reckoned, nothing checked.
--
-- KEYS     any; each is there, or is made
-- ARGV     milliseconds until they expire, what a key that is not there is to hold
-- Reply    nothing
local call, values = redis.call, redis.call('MGET', unpack(KEYS))
local expiry, new = ARGV[1], ARGV[2]
for i, key in ipairs(KEYS) do
    call('PSETEX', key, expiry, values[i] or new)
end
