// The stage between hold and plan: fetches the images and documents of a request for a provider that takes no URLs. The hold
// does not depend on their content: it counts an image as the model's largest, and a document as the whole context.

import { type FetchedFile, WIRE_TRAITS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { SECOND_MS } from "../../base/time.ts";
import type { RateLimiter } from "../../http/guards/rate-limiter.ts";
import type { BodyQuota } from "../../http/request/body-quota.ts";
import type { FetchFile } from "../media/fetch-file.ts";
import { type FileKind, fileUrlsOf } from "../media/file-urls.ts";
import { commonForm } from "../request/common-form.ts";
import type { Candidate } from "../routing/candidates.ts";
import { destinationOf, isAllowedSource } from "../shared-account/source-url.ts";
import type { Hold, OpenCall } from "./call.ts";

const FILES_MAX = 20;
const TOTAL_BYTES_MAX = 20_000_000;
/** For all files of a request. It must fit into the slack of the hold's lifetime. */
const TIMEOUT_MS = 10 * SECOND_MS;
/** Files of one request are often on one server. */
const CONCURRENCY = 4;
/** The size of base64 relative to the file. */
const BASE64_RATIO = 4 / 3;

export interface FetchFilesDeps {
  readonly fetchFile: FetchFile;
  /** By account, in this process. */
  readonly limiter: Pick<RateLimiter, "take">;
  readonly perMinute: number;
  readonly bodyQuota: Pick<BodyQuota, "acquire" | "release">;
  readonly now: () => number;
}

/**
 * Returns undefined if nothing is to be fetched. Only a call that is paid with credits fetches files: its hold proves a
 * balance, a valid key and its limits.
 */
export function fetchFiles(
  deps: FetchFilesDeps | undefined,
  call: OpenCall,
  { wires, credential }: Candidate,
  hold: Hold,
): Promise<Fault | undefined> | undefined {
  if (deps === undefined || !WIRE_TRAITS[wires[0]].needsFetchedFiles || wires.length > 1)
    return undefined;
  if (call.files !== undefined || hold.amount === 0n) return undefined;
  const destination = destinationOf(credential, wires[0]);
  const found = [...fileUrlsOf(commonForm(call.request))];
  // A URL that no provider may get is refused later, with its field, when the request is written.
  const urls = found.filter(
    ([url]) => destination === undefined || isAllowedSource(url, true, destination),
  );
  return urls.length === 0 ? undefined : fetchAll(deps, call, urls);
}

/** Returns a fault if a limit is exceeded. A file that cannot be fetched has its problem in `call.files`. */
async function fetchAll(
  deps: FetchFilesDeps,
  call: OpenCall,
  urls: readonly (readonly [url: string, kind: FileKind])[],
): Promise<Fault | undefined> {
  const { signal, caller } = call.input;
  const quotaCaller = { id: caller.keyId, groupId: caller.accountId, kind: "key" } as const;
  const files = new Map<string, FetchedFile>();
  let bytes = 0;
  let quotaBytes = 0;
  call.files = {
    files,
    release: () => {
      deps.bodyQuota.release(quotaCaller, quotaBytes);
      quotaBytes = 0;
    },
  };
  const stop = new AbortController();
  const limit = AbortSignal.any([signal, stop.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const onBytes = (count: number): void => {
    if (limit.aborted) throw new Error("stopped");
    bytes += count;
    if (bytes > TOTAL_BYTES_MAX) throw tooManyBytes();
    const counted = Math.ceil(count * BASE64_RATIO);
    deps.bodyQuota.acquire(quotaCaller, counted);
    quotaBytes += counted;
  };
  const onRequest = (): void => assertFileRateLimit(deps, caller.accountId);
  const queue = urls.slice(0, FILES_MAX).values();
  try {
    await Promise.all(
      Array.from({ length: CONCURRENCY }, async () => {
        for (const [url, kind] of queue)
          files.set(url, await deps.fetchFile({ url, kind, signal: limit, onRequest, onBytes }));
      }),
    );
  } catch (error) {
    stop.abort();
    if (error instanceof Fault) return error;
    throw error;
  }
  for (const [url] of urls.slice(FILES_MAX))
    files.set(url, {
      problem: `The gateway fetches at most ${FILES_MAX} files for a request. Send the content as base64.`,
    });
  return undefined;
}

function assertFileRateLimit({ limiter, perMinute, now }: FetchFilesDeps, accountId: string): void {
  const waitMs = limiter.take(accountId, now());
  if (waitMs === 0) return;
  throw new Fault("rate_limited", "fetched too many files", {
    message: `The gateway fetches at most ${perMinute} files a minute for an account. Wait, or send the content of images and files as base64.`,
    retryAfterSeconds: waitMs / 1_000,
  });
}

function tooManyBytes(): Fault {
  return new Fault("payload_too_large", "fetched files above the limit", {
    message: `The gateway fetches at most ${TOTAL_BYTES_MAX / 1_000_000} MB of files for a request. Use fewer or smaller files.`,
  });
}
