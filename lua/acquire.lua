-- SPDX-License-Identifier: BSD-3-Clause
-- Decide a batch of acquires, peeks and resets under limits of any kind, on this server's clock.
--
-- KEYS     1 to 256 distinct keys, one state each: first those of the entries, then those of the steps.
-- ARGV[1]  a MessagePack array: the call's number; entries; 0 and steps, if there are any.
--          Entries decide what asks for one key alone. For each run of keys under the same limit its kind,
--              1, 2  token bucket, leaky bucket   n, p, full    n units return each microsecond, p units are one token,
--                                                               full = capacity*p
--              3     fixed window                 limit, window in microseconds
--              4     quota                        limit, per (1 hour, 2 day, 3 week, 4 month), offset + one day in us
--              5     sliding log                  limit, window
--              6     sliding window               limit, window, tick in us
--              7     concurrency                  limit, lease time in us; only in steps, or to be reset
--          the number of keys, and for each of those keys
--              -1                    reset: delete it
--              0                     peek: read only
--              m, then m * (units, count)     acquires: `count` times in a row take `units` if they are there; units =
--                                             0, only first or, behind peeks, last, is an acquire that takes nothing
--                                             but is written all the same. Of a sliding log or quota count = 0 is a
--                                             peek of that cost
--              -1 - units                     one acquire: short for 1, units, 1
--          Steps come one after the other and may be for several keys: runs of their keys as above (kind, parameters,
--          number), then until the end of the array
--              1, hold, m, n, then (m + n) * (key, units)
--                                       acquire: take from all of m keys, and of n shadows from those that have room,
--                                       or from none. key counts the steps' keys from 1; units above the limit: 2^53.
--                                       hold: 0, or 12 bytes of id and for how long (a double, in us) to reserve of
--                                       quotas, 0: charge
--              2, hold, m, n, ...       peek
--              3, key, id               release a lease
--              4, key, id               renew it
--              5, key, id, amount, until    commit a reservation, which was to end at `until`
--              6, key, id               refund it
-- Reply    one string of little-endian doubles: now in microseconds, the call's number, then for each key of the
-- entries
--          what was found, before anything is taken, from which follows what each acquire gets:
--              bucket          units, or -3, units, lag where there is a lag
--              window          used, end
--              quota           used, end, held, holds, when the last of them ends; then for each of the m runs when a
--                              denial of it will have room, 0 if nothing of it was denied
--              sliding window  start, prev, cur
--              sliding log     at, units at it, older units, newest older time; then for each of the m runs when what a
--                              denial of it waits for was taken, 0 if nothing of it was denied
--              concurrency     held, leases, when the last of them ends, at
--              reset           1 or 0: there was, was not, something to forget
--              -1 alone        the key holds something else: nothing taken, nothing written
--              -2 alone        a command on the key was refused after other keys had been written: the same
--          For each key of the steps what was found, as above. For each step, unless one of its keys was -1 or -2,
--              acquire, peek   for each of its keys under a quota, sliding log or concurrency as for a run above
--              others          1 done, 0 there is no such hold, 2 late; then what is found now
--          For each key of the steps 0, or -1 or -2 if in the end it could not be written.
-- Clock    TIME, once. What happens after it stepped back is said with each kind; nothing is ever minted.
-- State    0xB1, 0x10 + kind (version 1), then doubles
--              bucket          p, units, at
--              window, quota   start, end, used; of a quota with reservations held, then those
--              sliding window  window, start, prev, cur
--              sliding log     no doubles first: the units before its first entry, as 32 bits, and for each entry its
--                              time (a double) and all units up to and with it (32 bits, which may wrap)
--              concurrency     at, held, then the leases
--          Of each lease or reservation, in the order in which they end: when it ends, its units, 12 bytes of id.
-- Expiry   when nothing that was taken counts any more, on Redis 8 up to a millisecond later; what is at that point
--          already is deleted.
--
-- All numbers are integers below 2^53, so doubles are exact, and floor and ceil of a quotient are too: x/d with
-- x < 2^53 never rounds across an integer. A product that may exceed 2^53 is only compared with a smaller number.
-- Every check of a key comes before its one write.

if redis.replicate_commands then redis.replicate_commands() end -- before Redis 7, if configured otherwise

local pcall, pack, read, format = redis.pcall, struct.pack, struct.unpack, string.format

local ops = cmsgpack.unpack(ARGV[1])
local keys, values = KEYS, redis.call('MGET', unpack(KEYS))
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local out, size = {now, ops[1]}, 2 -- size: of out
local written = false -- anything

-- Redis 8 drops a key as soon as the millisecond begins in which it expires, others once that is over. As the expiry
-- counts from the beginning of this millisecond, it would come up to a millisecond early there.
local spare = (redis.REDIS_VERSION_NUM or 0) >= 0x070300 and now % 1000 > 0 and 1 or 0
