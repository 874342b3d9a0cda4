// All background jobs of a server.

import { eraseClosedAccounts } from "../account-data/erasure.ts";
import { sweepCreationCounts } from "../accounts/creation-limits.ts";
import { sweepSolvedChallenges } from "../accounts/proof-of-work.ts";
import { sweepStreamEntries } from "../activity/audit-stream-rows.ts";
import { eraseOldAddresses } from "../activity/audit.ts";
import { sweepAgentSessions } from "../agent-sessions/agent-sessions.ts";
import type { Log } from "../base/log.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { runningBatches } from "../batches/batch-rows.ts";
import { BATCH_SWEEP_MS } from "../batches/batches.ts";
import { sweepRateCounters } from "../claims/rate-counters.ts";
import type { Config } from "../config/config.ts";
import type { UsageRetention } from "../config/retention-settings.ts";
import { sweepDeviceLogins } from "../device-login/device-login.ts";
import {
  deleteExpiredResponses,
  releaseAbandonedKeys,
  runningKeys,
} from "../idempotency/idempotency.ts";
import { emitExpiringKeys } from "../keys/expiring-keys.ts";
import { keepCallTransfers } from "../ledger/call-charges.ts";
import type { Lease } from "../ledger/lease.ts";
import { bothWorks } from "../ledger/liveness.ts";
import { stoppedSince } from "../ledger/session-rows.ts";
import { createSweeper } from "../ledger/sweep.ts";
import { sweepAuthorizationCodes } from "../mcp-sign-in/authorization-codes.ts";
import { sweepMcpSessions } from "../mcp/mcp-sessions.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import { sweepOperatorSessions } from "../operator/sign-in/operator-sessions.ts";
import { createCircuitWriter } from "../operator/system/open-circuits.ts";
import { sweepSessions } from "../people/sessions.ts";
import { sweepPrompts } from "../prompt-log/prompt-log.ts";
import { evaluateServiceLevels } from "../service-levels/evaluate-levels.ts";
import { sweepSinkEntries } from "../sinks/sinks.ts";
import { recheckDomains } from "../sso/domains.ts";
import type { Db } from "../store/db.ts";
import { findSchemaProblem } from "../store/migrate.ts";
import { archiveUsage, createArchiveFiles } from "../usage/archive/archive-usage.ts";
import { sweepRefusedCalls } from "../usage/refused-calls.ts";
import { sweepCredentialHours } from "../usage/rollup/credential-hours.ts";
import { sweepProviderHours } from "../usage/rollup/provider-hours.ts";
import { rollUpUsage } from "../usage/rollup/roll-up.ts";
import type { Core } from "./core.ts";
import type { Job } from "./scheduler.ts";
import type { ServerOptions } from "./server-options.ts";
import type { Services } from "./services.ts";

/** The record of a background response is written after its hold, within this time. */
export const RESPONSE_START_GRACE_MS = MINUTE_MS;

type Schedule = readonly [name: string, intervalMs: number, run: () => Promise<unknown>];

export function createJobs(
  { processName, usageRetention }: Config,
  options: Pick<ServerOptions, "log" | "now" | "onFatal">,
  services: Services,
): readonly Job[] {
  const { core, modelCalls, billing, operatorAlerts } = services;
  const { db, lease, catalog, reconcileHolds } = core;
  const { responses, telemetry } = modelCalls;
  const { log, now, onFatal } = options;
  const archiveJob = ({ days, folder }: UsageRetention) => {
    const files = createArchiveFiles(folder, now);
    const archive = { db, log, files, retentionDays: days, keepTransfers: keepCallTransfers };
    return () => archiveUsage(archive, now());
  };
  const writeOpenCircuits = createCircuitWriter({
    db,
    process: processName,
    listOpen: modelCalls.inference.openCircuits,
  });
  const jobs: readonly Schedule[] = [
    ["heartbeat", 5 * SECOND_MS, () => writeHeartbeat({ db, lease, onFatal }, processName)],
    ["check the files of the store", SECOND_MS, async () => checkFiles({ db, onFatal })],
    ["write open circuits", 5 * SECOND_MS, writeOpenCircuits],
    [
      "sweep holds",
      10 * SECOND_MS,
      createSweeper({ db, process: processName, now, otherWork: OTHER_WORK }),
    ],
    ["reconcile holds", 30 * SECOND_MS, () => reconcile({ reconcileHolds, log })],
    ...bufferJobs(services, now),
    ["read blocks and limits", 5 * SECOND_MS, () => readControls(services)],
    ["reload models file", 5 * SECOND_MS, createCatalogReload({ catalog, log, now })],
    ["erase closed accounts", HOUR_MS, () => eraseClosed(db, log, now())],
    ...rollupJobs(core, now),
    ["evaluate service levels", 5 * MINUTE_MS, () => evaluateServiceLevels({ db, log }, now())],
    ["delete expired records", 10 * MINUTE_MS, () => deleteExpired(db, now())],
    ["delete expired prompts", 10 * MINUTE_MS, () => sweepPrompts(db, now())],
    ["delete old sessions of agents", 10 * MINUTE_MS, () => sweepAgentSessions(db, now())],
    ...(db.kind === "postgres" ? [stoppedSessionsJob(db, modelCalls, now)] : []),
    ["delete expired responses", 10 * MINUTE_MS, () => responses.sweep(now())],
    ["delete responses beyond limits", 10 * SECOND_MS, responses.enforceLimits],
    [
      "fail orphaned background responses",
      10 * SECOND_MS,
      () => responses.failOrphaned(now() - RESPONSE_START_GRACE_MS),
    ],
    ...batchJobs(services),
    ["abort canceled background responses", 2 * SECOND_MS, responses.abortCanceled],
    // Not awaited: shutdown waits for running jobs, and an export may take ten seconds.
    ["export telemetry", 5 * SECOND_MS, async () => void telemetry?.flush()],
    ...deliveryJobs(services),
    ["report expiring keys", HOUR_MS, () => db.write((tx) => emitExpiringKeys(tx, now()))],
    ["reconcile payments", MINUTE_MS, billing.reconcile],
    ["process auto top-ups", SECOND_MS, billing.processTopUps],
    ...(operatorAlerts.run === undefined
      ? []
      : [["check for operator alerts", MINUTE_MS, operatorAlerts.run] as const]),
    ...ledgerJobs(services),
    ...(usageRetention === undefined
      ? []
      : [["archive usage records", HOUR_MS, archiveJob(usageRetention)] as const]),
    ...ssoJobs(services, now),
    ...services.agentPayments.jobs,
  ];
  return jobs.map(([name, intervalMs, run]) => ({ name, intervalMs, run }));
}

/** What processes own besides holds. */
const OTHER_WORK = bothWorks(runningKeys, runningBatches);

function deliveryJobs({
  deliveryWorker,
  emailWorker,
  auditStreamWorker,
  sinkWorker,
}: Services): readonly Schedule[] {
  return [
    ["deliver webhooks", SECOND_MS, deliveryWorker.tick],
    ["delete old webhook deliveries", HOUR_MS, deliveryWorker.sweep],
    ["stream audit logs", SECOND_MS, auditStreamWorker.tick],
    ["send usage to sinks", SECOND_MS, sinkWorker.tick],
    ["send emails", SECOND_MS, emailWorker.tick],
    ["delete old emails", HOUR_MS, emailWorker.sweep],
  ];
}

function ssoJobs({ core: { db }, sso }: Services, now: () => number): readonly Schedule[] {
  const recheck = () => recheckDomains({ db, resolveTxt: sso.resolveTxt }, now());
  return [["query the records of verified domains", 5 * MINUTE_MS, recheck]];
}

function ledgerJobs({ ledgerVerification, ledgerProofs }: Services): readonly Schedule[] {
  return [
    ...(ledgerVerification === undefined
      ? []
      : [["verify the ledger", 5 * MINUTE_MS, ledgerVerification.run] as const]),
    ...(ledgerProofs.publish === undefined
      ? []
      : [["publish the roots of the ledger", MINUTE_MS, ledgerProofs.publish] as const]),
  ];
}

function batchJobs({ batches, batchRunner }: Services): readonly Schedule[] {
  return [
    ["run batches", SECOND_MS, batchRunner.claim],
    ["delete old batches and files", BATCH_SWEEP_MS, batches.sweep],
  ];
}

/** A stop is read for so long after it was written. */
const STOP_READ_MS = 5 * MINUTE_MS;

/** Ends the streams of sessions that another process stopped. */
function stoppedSessionsJob(
  db: Db,
  { inference }: Services["modelCalls"],
  now: () => number,
): Schedule {
  const read = async (): Promise<void> => {
    for (const { accountId, id } of await stoppedSince(db, now() - STOP_READ_MS))
      inference.stoppedSessions.add(accountId, id);
  };
  return ["read stopped sessions", SECOND_MS, read];
}

interface HeartbeatDeps extends Pick<ServerOptions, "onFatal"> {
  readonly db: Db;
  readonly lease: Lease;
}

async function writeHeartbeat(
  { db, lease, onFatal }: HeartbeatDeps,
  processName: string,
): Promise<void> {
  if (!(await lease.renew())) {
    onFatal(
      `another process runs under the name ${processName}; give each its own POSTERN_PROCESS_NAME`,
    );
    return;
  }
  const reason = await findSchemaProblem(db);
  if (reason !== undefined) onFatal(reason);
}

async function reconcile({
  reconcileHolds,
  log,
}: Pick<Services["core"], "reconcileHolds"> & { readonly log: Log }): Promise<void> {
  const { settledAgain: settled, released } = await reconcileHolds();
  if (settled + released > 0)
    log.warn("the store had holds of calls that were settled", { settled, released });
}

async function readControls({ controls: { networks, limits } }: Services): Promise<void> {
  await Promise.all([networks.refresh(), limits.refresh()]);
}

interface FileCheckDeps extends Pick<ServerOptions, "onFatal"> {
  readonly db: Pick<Db, "isFileReplaced">;
}

// Closing the store writes its log, which is still open, into the file.
function checkFiles({ db, onFatal }: FileCheckDeps): void {
  if (db.isFileReplaced?.() === true)
    onFatal("a file of the store was removed or replaced while it was in use");
}

interface CatalogReloadDeps {
  readonly catalog: LiveCatalog;
  readonly log: Log;
  readonly now: () => number;
}

function createCatalogReload({ catalog, log, now }: CatalogReloadDeps): () => Promise<void> {
  let loggedError: string | undefined;
  return async () => {
    const { changed, error } = catalog.refresh(now());
    if (changed) log.info("reloaded the models file");
    if (error !== undefined && error !== loggedError)
      log.error("models file is not valid; kept the previous models", { detail: error });
    loggedError = error;
  };
}

/** Writes what is collected in memory, and reads what is cached there. */
function rollupJobs({ db, rollupQueue }: Core, now: () => number): readonly Schedule[] {
  const rollUp = (): Promise<unknown> => rollupQueue?.flushIfDue(db, now()) ?? rollUpUsage(db);
  return [
    ["roll up usage", 5 * SECOND_MS, rollUp],
    ["roll up usage of ended processes", MINUTE_MS, () => rollUpUsage(db, now() - 2 * MINUTE_MS)],
  ];
}

function bufferJobs(
  { core: { keys, refusedCalls }, modelCalls: { providerKeys } }: Services,
  now: () => number,
): readonly Schedule[] {
  return [
    ["read cached keys", 4 * SECOND_MS, () => keys.refresh(now())],
    ["read cached provider keys", 4 * SECOND_MS, () => providerKeys.refresh(now())],
    ["write refused calls", 5 * SECOND_MS, refusedCalls.flush],
    ["write last use of keys", 20 * SECOND_MS, keys.flushLastUsed],
    ["write last use of provider keys", 20 * SECOND_MS, providerKeys.flushLastUsed],
  ];
}

async function eraseClosed(db: Db, log: Log, now: number): Promise<void> {
  for (const account of await eraseClosedAccounts(db, now))
    log.info("erased the personal data of a closed account", { account });
}

async function deleteExpired(db: Db, now: number): Promise<void> {
  // First, because it goes on while a node is down, and deletions do not.
  await releaseAbandonedKeys(db, now);
  await deleteExpiredResponses(db, now);
  await db.write((tx) => sweepCreationCounts(tx, now));
  await db.write((tx) => sweepSolvedChallenges(tx, now));
  await db.write((tx) => sweepSessions(tx, now));
  await db.write((tx) => sweepRateCounters(tx, now));
  await db.write((tx) => sweepDeviceLogins(tx, now));
  await db.write((tx) => sweepAuthorizationCodes(tx, now));
  await db.write((tx) => sweepMcpSessions(tx, now));
  await db.write((tx) => sweepOperatorSessions(tx, now));
  await db.write((tx) => sweepProviderHours(tx, now));
  await db.write((tx) => sweepCredentialHours(tx, now));
  await db.write((tx) => sweepRefusedCalls(tx, now));
  await db.write((tx) => eraseOldAddresses(tx, now));
  await db.write((tx) => sweepStreamEntries(tx, now));
  await sweepSinkEntries(db, now);
}
