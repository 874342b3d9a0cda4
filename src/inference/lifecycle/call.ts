// The values that a model call consists of, in the order of its stages: each stage adds what it has learned.

import type { FetchedFiles, McpToolLists } from "@postern/wires";
import { publicError, type PublicError } from "../../base/error-body.ts";
import type { Fault } from "../../base/fault.ts";
import type { Guard, GuardrailCheck } from "../../base/guard.ts";
import type { JsonObject } from "../../base/json.ts";
import type { LoggedTexts } from "../../base/logged-texts.ts";
import type { Nano } from "../../base/money/money.ts";
import type { IdempotentCall } from "../../http/request/idempotent-call.ts";
import type { FormFile } from "../../http/request/multipart-body.ts";
import type { Caller, StepFilter } from "../../http/route.ts";
import { withAllowedSteps } from "../../http/step-filter.ts";
import type { Catalog } from "../../models/catalog.ts";
import type { Tx } from "../../store/db.ts";
import type { McpCallRecord, Outcome, ProviderAttempt, UsageRecord } from "../../usage/usage.ts";
import type { UsageCharge } from "../metering/charge.ts";
import type { CostEstimate } from "../metering/cost-estimate.ts";
import type { McpConnection } from "../remote-mcp/mcp-client.ts";
import type { CostCeiling } from "../request/call-options.ts";
import type { ForwardedHeaders } from "../request/forwarded-headers.ts";
import type { Api, ParsedRequest } from "../request/parse-request.ts";
import type { Candidate, Candidates } from "../routing/candidates.ts";
import type { PricedCandidates } from "../routing/priced-candidates.ts";
import type { RollingHold } from "../streaming/rolling-hold.ts";
import type { TransportPlan } from "../translate/transport-plan.ts";
import type { BatchItem, ItemSettlement } from "./batch-item.ts";
import type { ItemUse } from "./shared-credentials.ts";

/** The input that the endpoint passes in. */
export interface CallInput {
  readonly api: Api;
  /** The body; of a form, the JSON that stands for it. */
  readonly text: string;
  /** The body with its preset, if a guardrail may have changed it. */
  readonly unchecked?: string | undefined;
  /** Set for a workspace with guardrails, once they have checked the request. */
  readonly guardrails?: CallGuardrails | undefined;
  /** The files of a form, to which its JSON refers. */
  readonly files?: readonly FormFile[] | undefined;
  /** The body as it was received, for a receipt; undefined if it is `text`. */
  readonly received?: string | Uint8Array | undefined;
  /** Set if the endpoint changes the form of the reply after the call, for a receipt. */
  readonly sentForm?: SentForm | undefined;
  readonly caller: Caller;
  readonly requestId: string;
  readonly now: number;
  readonly headers: Headers;
  readonly forwardedHeaders: ForwardedHeaders;
  readonly signal: AbortSignal;
  /** From the header `x-postern-labels`, and from those that name a session. */
  readonly labels: readonly string[];
  /** Undefined for a call without a session. */
  readonly session: CallSession | undefined;
  readonly idempotent: IdempotentCall | undefined;
  /** Whether the request contains a payment. If so, a lack of credits is an error at once and not only after a fallback. */
  readonly hasPayment?: boolean;
  /** The preset that the call named, with its version. */
  readonly preset?: string;
  /** For errors within a stream. */
  readonly allowsStep?: StepFilter | undefined;
  /** The most that the wallet signed for, if one pays the call. */
  readonly ceiling?: Nano;
  /** Set for an item of a batch. */
  readonly batchItem?: BatchItem;
  /** Set for the check of another call of the key, which counts as a part of it and not as a call in parallel. */
  readonly isCheck?: true;
  /** Set for a call that runs in the background, which has been prepared already. */
  readonly statefulCall?: StatefulCall;
}

/** What an endpoint makes of a reply, whole or as a stream. */
export interface SentForm {
  readonly whole: (text: string) => string;
  readonly stream: () => StreamWriter;
}

export interface StreamWriter {
  readonly push: (bytes: Uint8Array) => string;
  readonly end: () => string;
}

interface CallGuardrails {
  readonly checks: readonly GuardrailCheck[];
  /** Checks the reply. */
  readonly output: Guard | undefined;
  /** The items of a stored conversation as they may be sent; undefined without guardrails on requests. */
  readonly checkPast:
    | ((items: readonly JsonObject[]) => Promise<readonly JsonObject[]>)
    | undefined;
}

/** What the caller sees of a fault, with the next steps that its key can take. */
export function publicErrorFor(
  { caller, allowsStep }: Pick<CallInput, "caller" | "allowsStep">,
  fault: Fault,
): PublicError {
  return withAllowedSteps(publicError(fault), caller.granted, allowsStep);
}

export interface CallSession {
  readonly id: string;
  /** From the header `x-postern-session-limit-usd`. */
  readonly limit: Nano | undefined;
}

/** A call that continues a stored response, or whose own response is to be stored. */
export interface StatefulCall {
  /** The request with all earlier turns: this is what is priced, held for and sent. */
  readonly request: ParsedRequest;
  /** Why it cannot be sent on the gateway's credentials. Its paths refer to the caller's own request. */
  readonly sharedCredentialsFault: (use: Pick<ItemUse, "sendsCalls">) => Fault | undefined;
  readonly requestFor: (candidate: Candidate) => CandidateRequest;
  /** Called after the first hold, before anything is sent. */
  readonly onHeld?: () => Promise<void>;
  /** The complete response, to be written with the charge; undefined if there is nothing to write. */
  readonly storeReply: () => ResponseWrite | undefined;
}

/** A stateful call's request to one candidate. */
export interface CandidateRequest {
  readonly request: ParsedRequest;
  /** Set in the text that is passed through, without parsing it again. */
  readonly members?: Readonly<Record<string, string | undefined>>;
  /** Changes the plan for `request`: what the caller sees of it, and what is stored. */
  readonly adaptPlan?: (plan: TransportPlan) => TransportPlan;
  /** Changes the paths of a fault from those of `request` to those of the caller's own request. */
  readonly toCallerFault?: (fault: Fault) => Fault;
}

/** A response to be stored. The settlements of a batch write theirs together. */
export interface ResponseWrite {
  readonly record: unknown;
  readonly writeAll: (tx: Tx, writes: readonly EndedWrite[]) => Promise<void>;
}

export type EndedWrite = ResponseWrite & { readonly endedAt: number };

export interface ParsedCall {
  readonly input: CallInput;
  readonly request: ParsedRequest;
  readonly statefulCall: StatefulCall | undefined;
}

export interface RoutedCall extends ParsedCall {
  /** The catalog when the call began, and that moment: its prices apply until the end. */
  readonly catalog: Catalog;
  readonly pricedAt: number;
  readonly candidates: Candidates;
}

/** Set for a call whose caller wants a receipt. */
export interface ReceiptRequest {
  /** The binding quote that the call was made with. */
  readonly quoteId: string | undefined;
}

/** A call while its candidates are tried; `hold.ts` sets its hold. */
export interface OpenCall extends Omit<RoutedCall, "candidates"> {
  readonly candidates: PricedCandidates;
  /** The most that the caller pays. */
  readonly ceiling: CostCeiling | undefined;
  /** The caller wants all that the call can cost to be held before it is sent. */
  readonly holdsAll: boolean;
  readonly receipt: ReceiptRequest | undefined;
  readonly attempts: ProviderAttempt[];
  /** Ends what `trackCall` began. */
  readonly untrack: () => void;
  hold?: Hold;
  /** Set if the first hold was refused because the key's policy or scopes changed since it was read. */
  isKeyChanged?: true;
  /** Set by `fetch-files.ts`, if the request has files that the gateway fetches. All candidates share them. */
  files?: CallFiles;
  /** Set by `open-mcp-servers.ts`, if the gateway calls the MCP servers of the request. */
  mcp?: CallMcp;
  /** Why a fallback to the gateway's account could not be paid for. */
  shortfall?: Fault;
}

/** The MCP servers that the gateway calls, by the names that the request has for them. */
export interface CallMcp {
  readonly lists: McpToolLists;
  readonly connections: ReadonlyMap<string, McpConnection>;
  /** Only the gateway has the secrets of a server, so that no provider can call it. */
  readonly isRequired: boolean;
  /** The calls so far, for the usage record. */
  readonly calls: McpCallRecord[];
}

interface CallFiles {
  readonly files: FetchedFiles;
  /** Returns their bytes to the quota of request bodies. */
  readonly release: () => void;
}

export interface Hold {
  /** Grows while a stream rolls. */
  amount: Nano;
  /** The most that the call may hold: more than `amount` only if the hold rolls. */
  readonly limit: Nano;
  /** Whether only a part of what the call may cost was held at first. */
  readonly isRolling: boolean;
  /** False for a hold of zero, which allows only candidates on the caller's provider key. */
  readonly isPaid: boolean;
  /** Whether the account had enough paid credit to be a customer's when the hold was made. */
  readonly isPaying: boolean;
  /** The term of the lease in which the hold was last known to exist. */
  leaseTerm: number;
  /** The row that holds the credits; that of the call by default. */
  readonly rowId?: string | undefined;
  /** Set for a key with a rate limit of its own. */
  readonly rateLimitHeaders?: Readonly<Record<string, string>>;
}

/** A call that has its hold, and its request to one candidate. */
export interface HeldCall extends Omit<RoutedCall, "candidates"> {
  readonly ceiling: CostCeiling | undefined;
  readonly receipt: ReceiptRequest | undefined;
  readonly attempts: ProviderAttempt[];
  readonly untrack: () => void;
  readonly candidate: Candidate;
  readonly estimate: CostEstimate;
  readonly hold: Hold;
  /** The output limit, if it was lowered to what the balance affords. */
  readonly outputMax: number | undefined;
  readonly plan: TransportPlan;
  /** The provider is asked for a stream, of which the gateway makes the whole reply that the caller waits for. */
  readonly isCollected?: boolean;
  readonly mcp?: CallMcp | undefined;
  /** Set for a stream whose hold does not cover all of its output. */
  roll?: RollingHold;
  /** The charge of a whole reply that the gateway ended, because no more could be held for it. */
  cut?: Pick<MeteredReply, "charge" | "cost">;
  /** Set once the response of a stream has ended before its reply: a loop of tools ends with its turn. */
  isAbandoned?: true;
}

export interface MeteredReply {
  readonly charge: UsageCharge;
  /** What the account pays: nothing if the caller's provider key was used. */
  readonly cost: Nano;
  readonly outcome: Outcome;
  /** The provider reported no usage for a complete reply. */
  readonly isUsageMissing?: boolean;
  /** Counts towards the limit of calls that a key may abandon. */
  readonly countsAsAbandoned?: boolean;
  readonly status: number;
  /** Set while no part of the reply has been sent: the call costs nothing if other calls have spent the credits of its hold. */
  readonly refuseUncovered?: boolean;
  /** Kept for a repetition with the same `Idempotency-Key`; without it, the request may run again. */
  readonly stored?: StoredReply | undefined;
  /** The reply to an item of a batch. */
  readonly body?: string | undefined;
  /** What the caller gets, if its key logs it. */
  readonly logged?: string | undefined;
  readonly firstTokenMs?: number;
  /** Fields of the reply that the caller's API cannot express; unknown for streams. */
  readonly replyLosses?: readonly string[];
  /** The hash of what was sent, for a receipt. */
  readonly responseSha256?: string | undefined;
  /** Set if the record was made before, for a receipt in the reply. */
  readonly usage?: UsageRecord;
  /** Why the call failed. */
  readonly fault?: Fault;
}

/** What is written in the transaction of the charge. */
export interface SettledCall {
  readonly usage: UsageRecord;
  readonly idempotent?:
    | { readonly call: IdempotentCall; readonly reply: StoredReply | undefined }
    | undefined;
  readonly response?: ResponseWrite | undefined;
  /** Set if an item of a batch ends with this call. */
  readonly item?: ItemSettlement | undefined;
  /** Set for a key with prompt logging. */
  readonly prompt?: LoggedTexts | undefined;
  /** Whether the usage of the call is queued for the sinks of the workspace. */
  readonly isExported?: boolean;
}

export function logsPrompts({ caller }: Pick<CallInput, "caller">): boolean {
  return caller.policy?.promptLogging === true;
}

export interface StoredReply {
  readonly status: number;
  readonly body: string;
}
