// `bun bench/soak.ts [clients] [at once]`: clients that leave in the middle of their stream, 30,000 unless told. Gateway,
// simulator and clients are one process, so what is printed is an upper bound of what the gateway itself keeps.

import { verifyLedger } from "../src/ledger/verify.ts";
import { soak } from "../test/inference/leaving.ts";
import { fund, recordsOf, USD } from "../test/inference/world.ts";
import { register, startGateway } from "../test/support/gateway.ts";

const WARM_UP = 2_000;

const clients = Number(process.argv[2] ?? 30_000);
const atOnce = Number(process.argv[3] ?? 100);

const gateway = await startGateway({ env: { POSTERN_LOG_LEVEL: "error" } });
const account = await register(gateway);
await fund(gateway, account, 100_000n * USD);
await soak(gateway, account, { clients: WARM_UP, atOnce });
const result = await soak(gateway, account, {
  clients,
  atOnce,
  tell: (done) => console.log(`${done} left, ${rss()} MiB`),
});
await Bun.sleep(1_000);
Bun.gc(true);

const records = await recordsOf(gateway.house.db, account.id);
const odd = records.filter(
  (record) => record["outcome"] !== "client_aborted" || Number(record["cost_nano"]) <= 0,
);
const { problems } = await verifyLedger(gateway.house.db);
console.log(
  [
    `${clients} clients, ${atOnce} at once, in ${result.seconds.toFixed(1)} s`,
    `upstream gone and settled ${result.settledMs.toFixed(0)} ms after the last`,
    `memory after each tenth: ${result.memory.join(" ")} MiB, now ${rss()} MiB`,
    `slope over the second half: ${slope(result.memory.slice(5)).toFixed(2)} MiB for each tenth`,
    `open files after each tenth: ${result.sockets.join(" ")}`,
    `${records.length} records, ${odd.length} of them not charged as left, ${problems.length} problems in the ledger`,
  ].join("\n"),
);
await gateway.stop();
process.exit(odd.length + problems.length === 0 && records.length === clients + WARM_UP ? 0 : 1);

function rss(): number {
  return Math.round(process.memoryUsage.rss() / 1_048_576);
}

/** The least-squares line through the points, a step apart. */
function slope(points: readonly number[]): number {
  const middle = (points.length - 1) / 2;
  const mean = points.reduce((sum, point) => sum + point, 0) / points.length;
  let up = 0;
  let across = 0;
  points.forEach((point, place) => {
    up += (place - middle) * (point - mean);
    across += (place - middle) ** 2;
  });
  return across === 0 ? 0 : up / across;
}
