// SPDX-License-Identifier: BSD-3-Clause
// load.js SOCKET NAMES IN-FLIGHT SECONDS auto|plain: consume() of rate-limiter-flexible on ioredis for SECONDS, IN-FLIGHT
// outstanding, each answer submitting the next. `auto`: with ioredis' own pipelining of what one turn of the loop sends.
// Ends with one JSON object.
'use strict';

const Redis = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const [socket, names, inFlight, seconds] = [process.argv[2], ...process.argv.slice(3, 6).map(Number)];
const redis = new Redis({ path: socket, enableAutoPipelining: process.argv[6] === 'auto', enableOfflineQueue: true });
const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: 'rlf', points: 1000000, duration: 3600 });

const latencies = new Float64Array(4000000);
let answered = 0;
let denied = 0;
let end = Infinity;

async function consumeInTurn() {
    while (performance.now() < end) {
        const since = performance.now();
        try {
            await limiter.consume(String(Math.floor(Math.random() * names)), 1);
        } catch (refusal) {
            if (refusal instanceof Error) throw refusal;
            denied++;
        }
        if (answered < latencies.length) latencies[answered] = performance.now() - since;
        answered++;
    }
}

async function main() {
    await limiter.consume('0', 1); // connected, script loaded
    const begin = performance.now();
    end = begin + seconds * 1000;
    await Promise.all(Array.from({ length: inFlight }, consumeInTurn));
    const elapsed = (performance.now() - begin) / 1000;
    const sorted = latencies.subarray(0, Math.min(answered, latencies.length)).sort();
    const at = (q) => Math.round(sorted[Math.floor(q * (sorted.length - 1))] * 1000);
    const rate = (answered / elapsed).toFixed(1);
    console.log(`{"acquires_per_s":${rate},"answered":${answered},"denied":${denied},"p50_us":${at(0.5)},"p99_us":${at(0.99)}}`);
    redis.disconnect();
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
});
