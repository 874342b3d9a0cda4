// The steps of each kind of route, in order. `validateTarget` and `matchRoute` come before them.

import { Fault } from "../base/fault.ts";
import type { Step } from "./request-context.ts";
import type { RouteKind, StepFilter } from "./route.ts";
import { type AdmissionLimits, admitCall, countOpenCall } from "./steps/admit.ts";
import { authenticateKey, checkScope, type KeyDeps } from "./steps/authenticate.ts";
import { limitRate, limitRefusals, type RateLimits } from "./steps/limit-rate.ts";
import { parseInput, parsePageForm } from "./steps/parse-input.ts";
import { type BodyLimits, type ClientIpOf, receiveBody } from "./steps/receive-body.ts";
import {
  findOperator,
  findSession,
  keepFormWithoutSession,
  requireOperator,
  requireSession,
  type SessionDeps,
} from "./steps/require-session.ts";
import { runRead, runWrite, type WriteDeps } from "./steps/run.ts";

const DRAINING_RETRY_SECONDS = 2;

interface NetworkLimits {
  /** The networks that operators have blocked. */
  readonly blockedNetworks?: {
    readonly isEmpty: () => boolean;
    readonly has: (address: string) => boolean;
  };
}

export interface StepDeps {
  readonly baseUrl: string;
  readonly now: () => number;
  readonly clientIpOf: ClientIpOf;
  readonly isDraining: () => boolean;
  readonly keys: KeyDeps;
  readonly sessions?: SessionDeps;
  readonly limits?: NetworkLimits & RateLimits & AdmissionLimits & BodyLimits;
  readonly writes: WriteDeps;
}

export function createSteps(
  deps: StepDeps,
  allowsStep: StepFilter,
): Readonly<Record<RouteKind, readonly Step[]>> {
  const { baseUrl, now, clientIpOf, keys, sessions = {}, limits = {} } = deps;
  const operatorStart = [drain(deps.isDraining), disableIdleTimeout];
  const start = [...operatorStart, rejectBlockedNetworks(limits, clientIpOf)];
  const readBody = receiveBody(limits, clientIpOf);
  const parse = parseInput(clientIpOf, allowsStep);
  const receive = [readBody, parse];
  const write = runWrite(deps.writes, now);
  const key = [...start, authenticateKey(keys, "store"), limitRate(limits), checkScope, ...receive];
  const session = [...start, findSession(sessions)];
  const operator = [...operatorStart, findOperator(sessions)];
  const parseForm = parsePageForm(clientIpOf, baseUrl);
  return {
    public: [...start, authenticateHeaders, ...receive, runRead],
    "public-write": [...start, ...receive, write],
    key: [...key, runRead],
    "key-write": [...key, write],
    // A call is admitted before its body is read. Its key may come from the cache: its hold checks it again.
    model: [
      ...start,
      authenticateKey(keys, "cache", clientIpOf),
      limitRefusals(limits, now),
      checkScope,
      admitCall(limits),
      readBody,
      countOpenCall(limits),
      parse,
      runRead,
    ],
    "open-page": [...session, parse, runRead],
    "open-form": [...session, readBody, parseForm, runRead],
    page: [...session, requireSession, parse, runRead],
    form: [...session, readBody, keepFormWithoutSession(sessions, baseUrl), parseForm, runRead],
    "operator-page": [...operator, requireOperator(sessions), parse, runRead],
    "operator-form": [...operator, readBody, requireOperator(sessions), parseForm, runRead],
  };
}

const authenticateHeaders: Step = ({ request, now }, { authenticate }) =>
  authenticate?.(request.headers, now).then(() => undefined);

const disableIdleTimeout: Step = ({ peer }, { isLongRunning }) => {
  if (isLongRunning === true) peer.disableIdleTimeout();
  return undefined;
};

/** Not for operators, who could block themselves, nor for the checks of load balancers. */
function rejectBlockedNetworks({ blockedNetworks }: NetworkLimits, clientIpOf: ClientIpOf): Step {
  return ({ peer, request }, { tag }) => {
    if (blockedNetworks === undefined || blockedNetworks.isEmpty()) return undefined;
    if (tag === "Operations" || tag === "Operator") return undefined;
    const address = clientIpOf(peer.address(), request.headers.get("x-forwarded-for"));
    if (blockedNetworks.has(address))
      throw new Fault("forbidden", `blocked network of ${address}`, {
        message: "The operator of this gateway has blocked your network.",
      });
    return undefined;
  };
}

/** While the process ends, only the endpoints that report on it are served. */
function drain(isDraining: () => boolean): Step {
  return (_context, { tag }) => {
    if (isDraining() && tag !== "Operations")
      throw new Fault("overloaded", "draining", { retryAfterSeconds: DRAINING_RETRY_SECONDS });
    return undefined;
  };
}
