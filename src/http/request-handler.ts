// Handles every HTTP request: finds its route, takes the steps of the route's kind in order, and finishes the response.

import type { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import {
  createFaultLog,
  createFaultResponder,
  createResponseFinisher,
  isOpenToPages,
  type ResponseDeps,
  withCommonHeaders,
} from "./finish-response.ts";
import { CALL_REFUSED } from "./guards/overload.ts";
import { createRefusedCallResponder } from "./refused-call.ts";
import type { Peer, ReceivedBody, RequestCaller, RequestContext } from "./request-context.ts";
import { createSteps, type StepDeps } from "./request-steps.ts";
import { splitTarget, validateTarget } from "./request/request-target.ts";
import { jsonResponse, preflightResponse, toFault } from "./response.ts";
import type { StepFilter } from "./route.ts";
import { createRouter } from "./router.ts";
import { createStepFilter } from "./step-filter.ts";
import { createMatchRoute, type MatchRouteDeps } from "./steps/match-route.ts";

export interface RequestHandlerDeps extends StepDeps, MatchRouteDeps {
  readonly log: Log;
  readonly responses?: ResponseDeps;
}

/** Returns a function from request to response that never throws. */
export function createRequestHandler(
  deps: RequestHandlerDeps,
): (request: Request, peer: Peer) => Promise<Response> {
  const { now: clock, responses = {}, log, baseUrl, routes } = deps;
  const allowsStep = createStepFilter(routes, baseUrl);
  const takeSteps = createPipeline(deps, allowsStep);
  const logFault = createFaultLog(log);
  const respondWithFault = createFaultResponder(responses, { baseUrl, allowsStep });
  const finishResponse = createResponseFinisher(responses);
  const refuseCall = createRefusedCallResponder((context) =>
    withCommonHeaders(respondWithFault(context, CALL_REFUSED), context),
  );
  return async (request, peer) => {
    const context = createContext(request, peer, clock());
    let response: Response;
    let fault: Fault | undefined;
    try {
      response = await takeSteps(context);
    } catch (error) {
      fault = toFault(error);
      logFault(context, fault);
      response = fault === CALL_REFUSED ? refuseCall(context) : respondWithFault(context, fault);
    }
    for (const run of context.onResponse) run(response, fault);
    const finished = finishResponse(context, response);
    if (finished instanceof Promise) response = await finished;
    responses.onResponse?.(context.match?.route, response.status, clock() - context.now);
    return response;
  };
}

function createPipeline(
  deps: RequestHandlerDeps,
  allowsStep: StepFilter,
): (context: RequestContext) => Promise<Response> {
  const match = createRouter(deps.routes);
  const matchRoute = createMatchRoute(deps, match);
  /** Whether a page may send the request that it asks about. */
  const allowsPages = (context: RequestContext): boolean => {
    const method = context.request.headers.get("access-control-request-method") ?? "";
    const found = match(method, context.path);
    const isRoute = found.kind === "route";
    if (!isOpenToPages(context.path, isRoute ? found.route : undefined)) return false;
    if (isRoute) context.match = found;
    return true;
  };
  const steps = createSteps(deps, allowsStep);
  return async (context) => {
    const { request, path, query } = context;
    validateTarget(request, path, query);
    const isPreflight = request.method === "OPTIONS" && allowsPages(context);
    if (isPreflight) return preflightResponse(request);
    const route = matchRoute(context);
    for (const step of steps[route.kind]) {
      const pending = step(context, route);
      const result = pending instanceof Promise ? await pending : pending;
      if (result !== undefined) return result instanceof Response ? result : jsonResponse(result);
    }
    throw new Error(`the steps of ${route.id} returned no response`);
  };
}

const UNKNOWN_CALLER: RequestCaller = {};
const NO_BODY: ReceivedBody = { text: "" };

function createContext(request: Request, peer: Peer, now: number): RequestContext {
  const [path, query] = splitTarget(request.url);
  return {
    request,
    path,
    query,
    peer,
    requestId: newId("req", now),
    now,
    onResponse: [],
    match: undefined,
    caller: UNKNOWN_CALLER,
    body: NO_BODY,
    input: undefined,
  };
}
