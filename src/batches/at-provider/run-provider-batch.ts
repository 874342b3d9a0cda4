// Runs a batch at a provider: submits its items as batches of the provider, polls those, and settles each result once. Every step
// writes what it is about to do first, so another process continues it after a crash.

import { endedKeyFault, Fault } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import { HOUR_MS, isDue, MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import {
  batchErrorFault,
  type BatchTarget,
  credentialOf,
} from "../../inference/lifecycle/batch-target.ts";
import type { Credential } from "../../inference/providers/credentials.ts";
import type { BatchApi } from "../../inference/providers/providers.ts";
import { openSealer } from "../batch-encryption.ts";
import { type Batch, readOwned } from "../batch-rows.ts";
import type { BatchEnd } from "../finish-batch.ts";
import { endInError, type OpenBatch } from "../item-ends.ts";
import { readPending, sumItems } from "../item-rows.ts";
import { anthropicBatches } from "./anthropic-batches.ts";
import { mistralBatches, openaiBatches, togetherBatches } from "./file-batches.ts";
import { geminiBatches } from "./gemini-batches.ts";
import { isRemoteError, type ProviderBatchApi, type RemoteBatch } from "./provider-batch-api.ts";
import {
  expireItems,
  insertProviderBatch,
  parseTarget,
  type ProviderBatch,
  readProviderBatches,
  readUnassigned,
} from "./provider-batch-rows.ts";
import {
  eachPending,
  FULL_PAUSE_MS,
  type Job,
  newRequestId,
  PAGE_ITEMS,
  type ProviderRunDeps,
  type RunControl,
  save,
} from "./provider-job.ts";
import { settleResults } from "./settle-results.ts";
import { findSubmission, submit } from "./submit.ts";

const POLL_MAX_MS = MINUTE_MS;
const PAUSE_MS = 15 * SECOND_MS;
/** After the window of the batch, its results are waited for no longer than this. */
const LATE_RESULTS_MS = 24 * HOUR_MS;

/** Why nothing more is submitted. */
type Stop = "canceled" | "expired" | "revoked";

const APIS: Readonly<Record<BatchApi, ProviderBatchApi>> = {
  openai: openaiBatches,
  anthropic: anthropicBatches,
  gemini: geminiBatches,
  mistral: mistralBatches,
  together: togetherBatches,
};

/** Returns a time if the batch yields to another one: when it is due. */
export async function runProviderBatch(
  deps: ProviderRunDeps,
  control: RunControl,
  batch: Batch,
  mustYield: () => boolean,
): Promise<BatchEnd | "lost" | number | undefined> {
  const { now } = deps;
  const open: OpenBatch = { batch, sealer: openSealer(deps.kek, batch, batch.dataKey) };
  const state = await readState(deps, batch);
  if (state === "lost") return "lost";
  if (state.stop === undefined) await planSubmissions(deps, batch);
  const rows = await readProviderBatches(deps.db, batch.id);
  const jobs = rows.map((row) => openJob(deps, control, open, row));
  while (!control.signal.aborted) {
    const found = await readState(deps, batch);
    if (found === "lost") return "lost";
    for (const job of jobs)
      if (job.row.state !== "ended" && isDue(job.at, now(), FULL_PAUSE_MS))
        await step(deps, control, job, found);
    if (jobs.every(({ row }) => row.state === "ended")) return endOf(deps, open, found.stop);
    if (now() > batch.expiresAt + LATE_RESULTS_MS) {
      deps.log.error("a provider did not end a batch", { batch: batch.id });
      return "expired";
    }
    // How often results could not be read is in memory only.
    if (jobs.every(({ failedReads }) => failedReads === 0) && mustYield()) {
      const dueAt = Math.min(...jobs.map(({ at, row }) => (row.state === "ended" ? Infinity : at)));
      // Not before the batch that waits.
      return Math.max(now(), dueAt);
    }
    await control.wait(deps.pollMinMs);
  }
  return undefined;
}

interface RunState {
  readonly stop: Stop | undefined;
  readonly isFrozen: boolean;
}

async function readState(deps: ProviderRunDeps, batch: Batch): Promise<RunState | "lost"> {
  const { db, now, process, epoch } = deps;
  const owned = await readOwned(db, batch.id, { process, epoch });
  if (owned === undefined) return "lost";
  const isFrozen = await deps.isFrozen(batch.accountId);
  if (owned.status === "canceling") return { stop: "canceled", isFrozen };
  if (now() >= batch.expiresAt) return { stop: "expired", isFrozen };
  const key = await deps.findKey(batch.keyId, now());
  const mayCall = key?.granted.has("models:write") === true;
  return { stop: mayCall ? undefined : "revoked", isFrozen };
}

interface Group {
  readonly target: string;
  readonly maxBytes: number;
  readonly positions: number[];
  bytes: number;
}

/** Items of one model are a batch of the provider, which takes one model in a batch. */
async function planSubmissions(deps: ProviderRunDeps, batch: Batch): Promise<void> {
  const { db, now } = deps;
  const items = await readUnassigned(db, batch.id);
  const groups: Group[] = [];
  const openGroups = new Map<string, Group>();
  for (const { target, position, bytes } of items) {
    let group = openGroups.get(target);
    if (group === undefined || group.bytes + bytes > group.maxBytes) {
      const maxBytes = group?.maxBytes ?? accessTo(deps, parseTarget(target)).api.maxBytes;
      group = { target, positions: [], bytes: 0, maxBytes };
      groups.push(group);
      openGroups.set(target, group);
    }
    group.positions.push(position);
    group.bytes += bytes;
  }
  await db.write(async (tx) => {
    for (const { target, positions } of groups) {
      const row = { id: newId("pbatch", now()), batchId: batch.id, target: parseTarget(target) };
      await insertProviderBatch(tx, row, positions);
    }
  });
}

interface Access {
  readonly api: ProviderBatchApi;
  readonly credential: Credential;
}

/** Throws while the operator has no such key: it may come back until the batch has to end. */
function accessTo({ target: { route } }: ProviderRunDeps, target: BatchTarget): Access {
  const credential = credentialOf(route, target);
  const { batches } = credential?.provider ?? {};
  if (credential === undefined || batches === undefined)
    throw new Error(`the gateway has no key ${target.credential} at ${target.provider}`);
  return { credential, api: APIS[batches.api] };
}

function openJob(
  deps: ProviderRunDeps,
  { signal }: RunControl,
  { batch, sealer }: OpenBatch,
  row: ProviderBatch,
): Job {
  const { target } = row;
  const { wire, upstreamName: model } = target;
  return {
    batch,
    sealer,
    row,
    get api() {
      return accessTo(deps, target).api;
    },
    get remote() {
      return { credential: accessTo(deps, target).credential, wire, model, signal };
    },
    at: 0,
    pollMs: deps.pollMinMs,
    failedReads: 0,
  };
}

async function step(
  deps: ProviderRunDeps,
  control: RunControl,
  job: Job,
  { stop, isFrozen }: RunState,
): Promise<void> {
  const { id, state, target } = job.row;
  job.at = deps.now() + job.pollMs;
  job.pollMs = Math.min(job.pollMs * 2, POLL_MAX_MS);
  try {
    if (state === "planned" && stop !== undefined) await save(deps, job, { state: "ended" });
    else if (state === "planned" && isFrozen) job.at = deps.now() + PAUSE_MS;
    else if (state === "planned") await control.exclusively(() => submit(deps, job));
    else if (state === "sending") await findSubmission(deps, job);
    else await poll(deps, control, job, stop);
  } catch (cause) {
    if (control.signal.aborted) return;
    const { provider } = target;
    deps.log.warn("a batch at a provider is tried again", { batch: id, provider, cause });
  }
}

async function poll(
  deps: ProviderRunDeps,
  control: RunControl,
  job: Job,
  stop: Stop | undefined,
): Promise<void> {
  const { api, remote, row } = job;
  const { remoteId } = row;
  if (remoteId === null) throw new Error(`${row.id} was sent without an id`);
  const found = await api.read(remote, remoteId);
  if (!found.isEnded) {
    if (stop === undefined) return;
    // A batch that ends meanwhile cannot be canceled.
    await api.cancel(remote, remoteId).catch((cause: unknown) => {
      if (!isRemoteError(cause)) throw cause;
    });
    return;
  }
  if (found.failure !== undefined) {
    await fail(deps, job, found.failure);
    return api.remove(remote, { id: remoteId, fileIds: found.fileIds });
  }
  await control.exclusively(() => settleResults(deps, job, found));
  await endRest(deps, job, { found, stop });
  await save(deps, job, { state: "ended" });
  await api.remove(remote, { id: remoteId, fileIds: found.fileIds });
}

/** The provider ran nothing: without the requests that it names as the cause, it may take the others. */
async function fail(
  deps: ProviderRunDeps,
  job: Job,
  { text, lines, isTemporary }: NonNullable<RemoteBatch["failure"]>,
): Promise<void> {
  const planned = { state: "planned", remoteId: null, remoteFileId: null } as const;
  if (isTemporary) {
    job.at = deps.now() + FULL_PAUSE_MS;
    return save(deps, job, planned);
  }
  const fault = batchErrorFault(job.remote.credential, job.row.target, { status: 400, text });
  const wanted = new Set(lines);
  let line = 0;
  await eachPending(deps, job, async (item) => {
    const isCause = wanted.size === 0 || wanted.has(line);
    line += 1;
    if (isCause) await endInError(deps.db, job, item, { fault, requestId: newRequestId(deps) });
  });
  await save(deps, job, wanted.size === 0 ? { state: "ended" } : planned);
}

/** What the provider has no result for. */
async function endRest(
  deps: ProviderRunDeps,
  job: Job,
  { found, stop }: { readonly found: RemoteBatch; readonly stop: Stop | undefined },
): Promise<void> {
  if (found.unprocessed === "expired") await expireItems(deps.db, job);
  else if (stop === undefined) {
    const fault = new Fault("upstream_error", `a batch ended without a result for an item`, {
      message: "The provider ended its batch without a result for this request. Send it again.",
    });
    await eachPending(deps, job, (item) =>
      endInError(deps.db, job, item, { fault, requestId: newRequestId(deps) }),
    );
  }
}

/** Items that were not run: of a canceled or expired batch they have that status, and without the key they cannot be run. */
async function endOf(
  deps: ProviderRunDeps,
  open: OpenBatch,
  stop: Stop | undefined,
): Promise<BatchEnd> {
  if (stop === "revoked")
    for (;;) {
      const items = await readPending(deps.db, open.batch.id, { after: -1, limit: PAGE_ITEMS });
      if (items.length === 0) break;
      const fault = endedKeyFault("the batch's key was revoked or has expired");
      for (const item of items)
        await endInError(deps.db, open, item, { fault, requestId: newRequestId(deps) });
    }
  if (stop === "canceled" || stop === "expired") return stop;
  const sums = await sumItems(deps.db, open.batch.id);
  return sums.some(({ status }) => status === "expired") ? "expired" : "completed";
}
