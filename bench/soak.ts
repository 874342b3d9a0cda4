// Soak test: 30,000 clients disconnect in the middle of a stream. Run it with `npm run soak`, or with other numbers as
// `node bin/bun.js bench/soak.ts [clients] [concurrency]`. Gateway, simulator and clients share one process, so the memory
// printed is an upper bound for the gateway.

import { verifyLedger } from "../src/verification/verify.ts";
import { grantCredits, usageRecordsOf, USD } from "../test/inference/support/harness.ts";
import { disconnectManyClients } from "../test/inference/support/socket-client.ts";
import { registerAccount, startGateway } from "../test/support/gateway.ts";

const WARM_UP_CLIENTS = 2_000;

const clients = Number(process.argv[2] ?? 30_000);
const concurrency = Number(process.argv[3] ?? 100);

const gateway = await startGateway({ env: { POSTERN_LOG_LEVEL: "error" } });
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 100_000n * USD);
await disconnectManyClients(gateway, account, { clients: WARM_UP_CLIENTS, concurrency });
const result = await disconnectManyClients(gateway, account, {
  clients,
  concurrency,
  onProgress: (done) => console.log(`${done} clients disconnected, ${rssMb()} MiB`),
});
// The sockets of the last clients close before the memory is read.
await Bun.sleep(1_000);
Bun.gc(true);

const records = await usageRecordsOf(gateway.server.db, account.id);
const mischarged = records.filter(
  (record) => record["outcome"] !== "client_aborted" || Number(record["cost_nano"]) <= 0,
);
const { problems } = await verifyLedger(gateway.server.db);
console.log(
  [
    `${clients} clients, ${concurrency} concurrent, in ${result.seconds.toFixed(1)} s`,
    `all upstream connections closed and all calls settled ${result.cleanupMs.toFixed(0)} ms after the last client`,
    `memory after each tenth: ${result.memoryMiB.join(" ")} MiB, now ${rssMb()} MiB`,
    `slope over the second half: ${slope(result.memoryMiB.slice(5)).toFixed(2)} MiB per tenth`,
    `open files after each tenth: ${result.sockets.join(" ")}`,
    `${records.length} usage records, ${mischarged.length} not charged as aborted, ${problems.length} ledger problems`,
  ].join("\n"),
);
await gateway.stop();
process.exit(
  mischarged.length + problems.length === 0 && records.length === clients + WARM_UP_CLIENTS ? 0 : 1,
);

function rssMb(): number {
  return Math.round(process.memoryUsage.rss() / 1_048_576);
}

/** The slope of the least-squares line through equally spaced points. */
function slope(points: readonly number[]): number {
  const middle = (points.length - 1) / 2;
  const mean = points.reduce((sum, point) => sum + point, 0) / points.length;
  let covariance = 0;
  let variance = 0;
  points.forEach((point, index) => {
    covariance += (index - middle) * (point - mean);
    variance += (index - middle) ** 2;
  });
  return variance === 0 ? 0 : covariance / variance;
}
