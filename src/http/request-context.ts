// The state of one request and the injected capabilities, which all steps of its handling share.

import type { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import type { DescriptorGuard } from "./guards/descriptors.ts";
import type { OpenCalls } from "./guards/open-calls.ts";
import type { OverloadGuard } from "./guards/overload.ts";
import type { RateLimiter } from "./guards/rate-limiter.ts";
import type { SentForm } from "./guards/session-guard.ts";
import type { BodyQuota, BodyQuotaCaller } from "./request/body-quota.ts";
import type { BodyTimeouts } from "./request/body.ts";
import type { IdempotentCall } from "./request/idempotent-call.ts";
import type { UploadLimit } from "./request/upload-limit.ts";
import type { AuthenticatedKey, Route, SessionUser } from "./route.ts";
import type { WebSocketHandlers } from "./web-socket.ts";

export interface KeyRejection {
  /** A sentence. */
  readonly reason: string;
  /** False for what never was a key of this gateway. */
  readonly wasLive: boolean;
}

export interface RequestHandlerDeps {
  readonly routes: readonly Route[];
  readonly db: Db;
  readonly baseUrl: string;
  readonly log: Log;
  readonly now: () => number;
  /** Finds the account, the id and the scopes of a raw key. From the cache they may be some seconds old. */
  readonly authenticate: (
    rawKey: string,
    now: number,
    source: "cache" | "store",
  ) => AuthenticatedKey | undefined | Promise<AuthenticatedKey | undefined>;
  /** Why a key that was not found is rejected; undefined if it is live. */
  readonly explainRejectedKey?: (rawKey: string, now: number) => Promise<KeyRejection | undefined>;
  /** Rechecks, inside the transaction of a write, a key that was authenticated when the request arrived. */
  readonly findLiveKey?: (
    reader: Reader,
    keyId: string,
    now: number,
  ) => Promise<AuthenticatedKey | undefined>;
  /** Finds the session of the request's cookies; absent if sign-in is disabled. */
  readonly findSessionUser?: (
    cookies: string | null,
    now: number,
  ) => Promise<SessionUser | undefined>;
  /** Returns the cookie that keeps a form that was sent after the session ended; undefined if it is too large. */
  readonly keepForm?: (form: SentForm, now: number) => string | undefined;
  /** Renders a fault as HTML; without it, faults of pages are plain text. */
  readonly faultPage?: (fault: Fault, requestId: string) => Response;
  readonly beginIdempotent: (
    tx: Tx,
    call: IdempotentCall,
  ) => Promise<{ readonly status: number; readonly body: string } | undefined>;
  readonly finishIdempotent: (
    tx: Tx,
    call: IdempotentCall,
    response: { readonly status: number; readonly body: string },
  ) => Promise<unknown>;
  readonly rateLimiter: RateLimiter | undefined;
  /** Counts rejected model calls; accepted ones are counted by their hold. */
  readonly refusalLimiter?: RateLimiter | undefined;
  readonly openCalls?: OpenCalls | undefined;
  readonly overload?: OverloadGuard | undefined;
  readonly descriptors?: DescriptorGuard | undefined;
  readonly clientIpOf: (peer: string, forwarded: string | null) => string;
  /** Whether clients should connect again, to another process: connections are closed after their response. */
  readonly isLeaving?: (() => boolean) | undefined;
  readonly isDraining: () => boolean;
  /** A more specific 404 for endpoints of OpenAI's and Anthropic's APIs that are not supported. */
  readonly unsupportedEndpointFault?: (path: string) => Fault | undefined;
  /** Set in development: responses to pages of other hosts have no CORS headers. */
  readonly blocksForeignOrigins?: boolean;
  /** Overridden by tests. */
  readonly bodyQuota?: BodyQuota | undefined;
  /** Overridden by tests. */
  readonly uploadLimit?: UploadLimit | undefined;
  /** Overridden by tests. */
  readonly bodyTimeouts?: BodyTimeouts | undefined;
  readonly onResponse?: (route: Route | undefined, status: number, ms: number) => void;
}

/** The client's connection. */
export interface Peer {
  readonly address: () => string;
  /** Keeps the connection open without traffic for as long as the call takes. */
  readonly disableIdleTimeout: () => void;
  /** Upgrades the connection to a WebSocket after the response; absent if the request has no connection of its own. */
  readonly acceptWebSocket?: (handlers: WebSocketHandlers) => void;
}

export interface RequestContext {
  readonly request: Request;
  readonly path: string;
  readonly query: string;
  readonly peer: Peer;
  readonly requestId: string;
  readonly now: number;
  isKeySent: boolean;
  route: Route | undefined;
  /** The key of a model call, which is counted here only if it is rejected. */
  holdCountedKeyId: string | undefined;
  /** Ends what was counted as an open call of the key. */
  leaveOpenCalls: (() => void) | undefined;
  /** Whether the guard against overload has counted the call. */
  isAdmitted: boolean;
  /** Bytes of the body that count towards the memory quota of `quotaCaller` until the response. */
  quotaBytes: number;
  quotaCaller: BodyQuotaCaller | undefined;
}
