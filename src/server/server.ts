// Creates the server: services, route table, request handler and background jobs.

import { totalmem } from "node:os";
import type { Log } from "../base/log.ts";
import { memoize } from "../base/memoize.ts";
import type { Config } from "../config/config.ts";
import type { LiveLimits } from "../controls/limits.ts";
import {
  createDescriptorGuard,
  type DescriptorGuard,
  type OpenFiles,
} from "../http/guards/descriptors.ts";
import { createOpenCalls } from "../http/guards/open-calls.ts";
import { createOverloadGuard } from "../http/guards/overload.ts";
import { type RateLimiter, rateLimiterFor } from "../http/guards/rate-limiter.ts";
import { createFaultPage } from "../http/pages/fault-page.tsx";
import type { Peer } from "../http/request-context.ts";
import { createRequestHandler } from "../http/request-handler.ts";
import { createClientIpResolver } from "../http/request/client-ip.ts";
import { createUploadLimit, uploadLimitsFor } from "../http/request/upload-limit.ts";
import type { Route } from "../http/route.ts";
import { unsupportedEndpointFault } from "../inference/api/unsupported-endpoints.ts";
import type { SettledCall } from "../inference/lifecycle/call.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { operatorSignInPath } from "../operator/page-context.ts";
import { createResponseWebSockets } from "../responses/websocket/web-sockets.ts";
import { unlessNodeIsDown } from "../store/all-accounts.ts";
import type { Db } from "../store/db.ts";
import { usesSimulator } from "./create-discovery-settings.ts";
import { createJobs, RESPONSE_START_GRACE_MS } from "./jobs.ts";
import { findOpenFiles } from "./open-files.ts";
import { createRouteDeps } from "./route-deps.ts";
import { allRoutes } from "./route-table.ts";
import { startJobs } from "./scheduler.ts";
import type { ServerOptions } from "./server-options.ts";
import { createServices, type Services } from "./services.ts";
import { shutdown } from "./shutdown.ts";

const RATES_KEPT = 1;

export interface Server {
  readonly db: Db;
  readonly ledger: Ledger<SettledCall>;
  readonly routes: readonly Route[];
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  /** Lines for a person to read at the start. */
  readonly notes: readonly string[];
  /** Limits the connections to these ports per network, where that is on. */
  readonly limitConnections: (ports: readonly number[]) => void;
  /** `/readyz` answers 503 and connections are closed after a response, while requests are still served. */
  readonly startLeaving: () => void;
  /** Refuses new work. */
  readonly startDraining: () => void;
  /** Resolves when no model call is open: all holds are settled. */
  readonly idle: () => Promise<void>;
  /** Ends the calls in flight, so that each gets a response, and is recorded as shut down. */
  readonly endCalls: () => void;
  /** Stops the jobs, writes what is still in memory, and closes the store. */
  readonly close: () => Promise<void>;
}

export async function createServer(config: Config, options: ServerOptions): Promise<Server> {
  const { log, now } = options;
  const overload = options.overload ?? createOverloadGuard();
  const services = await createServices(config, options, overload);
  const { db, ledger } = services.core;
  const { inference, responses } = services.modelCalls;
  const startedBefore = db.kind === "sqlite" ? now() : now() - RESPONSE_START_GRACE_MS;
  await unlessNodeIsDown(db, responses.failOrphaned(startedBefore));
  let phase: "serving" | "leaving" | "draining" = "serving";
  const isLeaving = (): boolean => phase !== "serving";
  const isDraining = (): boolean => phase === "draining";
  const handleLater: Server["handle"] = (request, peer) => handle(request, peer);
  const rateLimiter = liveRateLimiter(services.controls.limits);
  const webSockets = createResponseWebSockets({
    findKeyById: (id, at) => findLiveKey(db, id, at),
    handle: handleLater,
    baseUrl: config.baseUrl,
    now,
    bodyQuota: services.core.bodyQuota,
    rateLimiter,
    memoryBytes: Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem()),
    lifetimeMs: options.webSocketLifetimeMs,
  });
  const handling = { isLeaving, handle: handleLater, webSockets };
  const routes = allRoutes(createRouteDeps(config, options, services, handling));
  const handle = createHandler(config, options, services, {
    routes,
    overload,
    rateLimiter,
    isLeaving,
    isDraining,
  });
  const stopJobs = startJobs(
    { log, now, jobRuns: services.jobRuns },
    createJobs(config, options, services),
  );
  return {
    db,
    ledger,
    routes,
    handle,
    notes: startupNotes(config),
    limitConnections: (ports) => services.core.connectionGuard?.start(ports),
    startLeaving: () => {
      phase = "leaving";
    },
    startDraining: () => {
      phase = "draining";
      responses.startDraining();
      services.batchRunner.stop();
      webSockets.startDraining();
    },
    idle: inference.whenIdle,
    endCalls: inference.endCalls,
    close: () => shutdown(services, stopJobs, now),
  };
}

interface HandlerState {
  readonly overload: NonNullable<ServerOptions["overload"]>;
  readonly routes: readonly Route[];
  readonly rateLimiter: () => RateLimiter | undefined;
  readonly isLeaving: () => boolean;
  readonly isDraining: () => boolean;
}

function createHandler(
  { baseUrl, development, trustedProxies, billing: { operator } }: Config,
  { log, now }: ServerOptions,
  { core, modelCalls, sessions, keptForms, operatorContext, controls }: Services,
  { routes, overload, rateLimiter, isLeaving, isDraining }: HandlerState,
): Server["handle"] {
  const { db, keys, explainRejectedKey, idempotency, bodyQuota } = core;
  const { metrics, inference } = modelCalls;
  const openFiles = findOpenFiles();
  const refusals = liveRateLimiter(controls.limits);
  return createRequestHandler({
    routes,
    unsupportedEndpointFault,
    baseUrl,
    log,
    now,
    clientIpOf: createClientIpResolver(trustedProxies),
    isDraining,
    keys: {
      find: keys.find,
      explainRejected: explainRejectedKey,
      signedRequests: core.signedRequests,
    },
    sessions: {
      find: sessions.find,
      keepForm: keptForms.keep,
      operators: operatorContext && {
        find: operatorContext.sessions.find,
        signInPath: operatorSignInPath,
      },
    },
    limits: {
      blockedNetworks: controls.networks,
      get requests() {
        return rateLimiter();
      },
      get refusals() {
        return refusals();
      },
      openCalls: createOpenCalls(() => controls.limits.current().openCallsPerKey),
      overload: overload === "off" ? undefined : overload,
      bodyQuota,
      uploads: openFiles && createUploadLimit(uploadLimitsFor(openFiles.max)),
    },
    writes: {
      db,
      beginIdempotent: idempotency.begin,
      finishIdempotent: idempotency.finish,
      findLiveKey,
    },
    responses: {
      faultPage: createFaultPage(operator.contact),
      contact: operator.contact,
      descriptors: openFiles && descriptorGuard(openFiles, log),
      isLeaving,
      rateHeadersOf: inference.rateHeadersOf,
      blocksForeignOrigins: development,
      onRefusedCall: core.refusedCalls.add,
      onResponse: (route, status, ms) => metrics.recordRequest(route?.id ?? "none", status, ms),
    },
  });
}

/** The limiter of the current rate of keys; another one, with the whole burst of each key, after a change. */
function liveRateLimiter({ current }: LiveLimits): () => RateLimiter | undefined {
  const limiterOf = memoize(rateLimiterFor, RATES_KEPT);
  return () => limiterOf(current().requestsPerMinute);
}

function descriptorGuard(openFiles: OpenFiles, log: Log): DescriptorGuard {
  return createDescriptorGuard(openFiles, (open) =>
    log.warn("file descriptors are scarce: responses close their connections", {
      open,
      limit: openFiles.max,
    }),
  );
}

function startupNotes(config: Config): readonly string[] {
  const providers = Object.keys(config.providers);
  if (providers.length > 0) return [`providers  ${providers.join(", ")}`];
  return [
    usesSimulator(config)
      ? "providers  none: replies of sim/… models are simulated"
      : "providers  none",
  ];
}
