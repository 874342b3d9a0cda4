// Submits a batch to its provider. Between the request and the note of its reply a crash loses the reply: then the submission is
// looked for at the provider before it is repeated.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { batchErrorFault, writeBatchRequest } from "../../inference/lifecycle/batch-target.ts";
import type { ForwardedHeaders } from "../../inference/request/forwarded-headers.ts";
import { itemInput } from "../item-call.ts";
import { endInError } from "../item-ends.ts";
import type { PendingItem } from "../item-rows.ts";
import { isRemoteError, type RemoteError, type Submission } from "./provider-batch-api.ts";
import { hasRemoteId } from "./provider-batch-rows.ts";
import {
  customIdPrefix,
  eachPending,
  FULL_PAUSE_MS,
  type Job,
  newRequestId,
  type ProviderRunDeps,
  save,
} from "./provider-job.ts";

/** A request that is not at the provider after this time, which is longer than its timeout, will not arrive any more. */
const ABSENT_AFTER_MS = 2 * MINUTE_MS;

export async function submit(deps: ProviderRunDeps, job: Job): Promise<void> {
  const written = await writeLines(deps, job);
  if (written === undefined) return;
  if (written.lines.length === 0) return save(deps, job, { state: "ended" });
  const attempts = job.row.attempts + 1;
  const submission: Submission = { ...written, tag: tagOf(job, attempts), fileId: null };
  try {
    const fileId = await job.api.upload(job.remote, submission);
    const attempt = { attempts, attemptedAt: deps.now(), remoteFileId: fileId };
    await save(deps, job, { ...attempt, state: "sending" });
    const remoteId = await job.api.create(job.remote, { ...submission, fileId });
    await save(deps, job, { state: "sent", remoteId });
  } catch (error) {
    if (!isRemoteError(error)) throw error;
    await refused(deps, job, error);
  }
}

function tagOf({ row: { id } }: Job, attempts: number): string {
  return `${id}-${attempts}`;
}

/** Whether the provider has a submission whose reply was lost. */
export async function findSubmission(deps: ProviderRunDeps, job: Job): Promise<void> {
  const { row, api, remote } = job;
  const attemptedAt = row.attemptedAt ?? 0;
  let requests = 0;
  await eachPending(deps, job, async () => void (requests += 1));
  const found = await api.find(remote, {
    tag: tagOf(job, row.attempts),
    fileId: row.remoteFileId,
    customIdPrefix: customIdPrefix(job),
    requests,
    attemptedAt,
    isKnown: (id) => hasRemoteId(deps.db, id),
  });
  if (typeof found === "object") {
    await save(deps, job, { state: "sent", remoteId: found.id });
    job.at = deps.now() + job.pollMs;
    return;
  }
  if (found === "unverified") return;
  const absentAt = attemptedAt + ABSENT_AFTER_MS;
  if (deps.now() < absentAt) {
    job.at = Math.min(job.at, absentAt);
    return;
  }
  await withdraw(deps, job);
  job.at = deps.now();
}

/** It is planned again. Without its file, a request that still arrives makes no batch. */
async function withdraw(deps: ProviderRunDeps, job: Job): Promise<void> {
  const { remoteFileId } = job.row;
  await save(deps, job, { state: "planned", remoteFileId: null });
  if (remoteFileId !== null)
    await job.api.remove(job.remote, { id: null, fileIds: [remoteFileId] });
}

/** Statuses that say nothing of whether the provider has the batch. */
function isAmbiguous(status: number): boolean {
  return status === 408 || status === 409 || status >= 500;
}

async function refused(deps: ProviderRunDeps, job: Job, error: RemoteError): Promise<void> {
  const { status, text } = error;
  const { provider } = job.row.target;
  const wasUploaded = job.row.state === "sending";
  if (wasUploaded && isAmbiguous(status)) throw error;
  await withdraw(deps, job);
  if (isAmbiguous(status) || status === 429 || status === 401 || status === 403) {
    job.at = deps.now() + (status === 429 ? FULL_PAUSE_MS : MINUTE_MS);
    throw error;
  }
  const hasNoBatches = status === 404 || status === 405;
  if (hasNoBatches) deps.onNoBatches(provider);
  deps.log.error("a provider refused a batch", { batch: job.batch.id, provider, cause: error });
  const fault = hasNoBatches
    ? new Fault("upstream_error", "the provider has no batches", {
        message: `${provider} has no batches. Send the request again: the gateway then runs it itself.`,
      })
    : batchErrorFault(job.remote.credential, job.row.target, { status, text });
  await eachPending(deps, job, (item) =>
    endInError(deps.db, job, item, { fault, requestId: newRequestId(deps) }),
  );
  await save(deps, job, { state: "ended" });
}

interface Lines {
  readonly lines: readonly string[];
  readonly headers: ForwardedHeaders;
}

/** Undefined if the key has ended meanwhile. Items that its key may not run any more end in that error. */
async function writeLines(deps: ProviderRunDeps, job: Job): Promise<Lines | undefined> {
  const { batch, row, api, remote } = job;
  const caller = await deps.findKey(batch.keyId, deps.now());
  if (caller === undefined) return undefined;
  const lines: string[] = [];
  const betas = new Set<string>();
  let headers: ForwardedHeaders = {};
  const write = async (item: PendingItem): Promise<void> => {
    const requestId = newRequestId(deps);
    const text = job.sealer.open(`request/${item.position}`, item.sealedRequest);
    const { endpoint, headers: kept } = batch;
    const input = itemInput({ endpoint, headers: kept, caller, text, requestId, now: deps.now() });
    const { target } = row;
    try {
      const pricing = { target, pricedAt: batch.createdAt, share: item.share };
      const request = await writeBatchRequest(deps.target, input, pricing);
      headers = request.headers;
      for (const beta of headers["anthropic-beta"]?.split(",") ?? []) betas.add(beta.trim());
      const customId = `${customIdPrefix(job)}${item.position}`;
      lines.push(api.lineOf({ customId, body: request.body }, remote.wire));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      await endInError(deps.db, job, item, { fault: error, requestId });
    }
  };
  await eachPending(deps, job, write);
  const beta = betas.size === 0 ? {} : { "anthropic-beta": [...betas].join(",") };
  return { lines, headers: { ...headers, ...beta } };
}
