// Reads the body of a request within the limits of its route and of its sender.

import type { RequestContext, Step } from "../request-context.ts";
import { hashOfBody } from "../request/body-hash.ts";
import { type BodyQuota, type BodyQuotaCaller, createBodyQuota } from "../request/body-quota.ts";
import {
  BODY_LIMIT_DEFAULT_BYTES,
  type BodyTimeouts,
  decodeUtf8,
  readBody,
} from "../request/body.ts";
import { networksOf } from "../request/client-ip.ts";
import { isMultipart, parseMultipart } from "../request/multipart-body.ts";
import { createUploadLimit, type UploadLimit } from "../request/upload-limit.ts";

export interface BodyLimits {
  readonly bodyQuota?: BodyQuota | undefined;
  readonly uploads?: UploadLimit | undefined;
  /** Overridden by tests. */
  readonly bodyTimeouts?: BodyTimeouts | undefined;
}

export type ClientIpOf = (peer: string, forwarded: string | null) => string;

export function receiveBody(
  { bodyQuota = createBodyQuota(), uploads = createUploadLimit(), bodyTimeouts }: BodyLimits,
  clientIpOf: ClientIpOf,
): Step {
  return (context, route) => {
    if (route.method === "GET" || route.multipart === "streamed") return undefined;
    const sender = context.caller;
    const caller = quotaCallerOf(context, clientIpOf);
    let countedBytes = 0;
    const reading = readBody(context.request, {
      limitBytes: route.bodyLimitBytes ?? BODY_LIMIT_DEFAULT_BYTES,
      isAnonymous:
        sender.key?.isAnonymous ?? (sender.key === undefined && sender.user === undefined),
      timeouts: bodyTimeouts,
      onStart: () => uploads.begin(caller),
      onEnd: () => uploads.end(caller),
      onGrowth: (bytes) => {
        bodyQuota.acquire(caller, bytes - countedBytes);
        if (countedBytes === 0)
          context.onResponse.push(() => bodyQuota.release(caller, countedBytes));
        countedBytes = bytes;
      },
    });
    return reading.then((bytes) => {
      sender.checkBody?.(hashOfBody(bytes));
      const { headers } = context.request;
      context.body =
        route.multipart !== undefined && isMultipart(headers)
          ? {
              text: "",
              form: parseMultipart(bytes, headers.get("content-type") ?? ""),
              formBytes: bytes,
            }
          : { text: decodeUtf8(bytes) };
      return undefined;
    });
  };
}

function quotaCallerOf(
  { caller: { key }, request, peer }: RequestContext,
  clientIpOf: ClientIpOf,
): BodyQuotaCaller {
  if (key !== undefined && key.isAnonymous !== true)
    return { id: key.keyId, groupId: key.accountId, kind: "key" };
  const clientIp = clientIpOf(peer.address(), request.headers.get("x-forwarded-for"));
  const [id, groupId] = networksOf(clientIp);
  return { id, groupId, kind: "network" };
}
