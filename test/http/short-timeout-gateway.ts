// A second listener on a gateway's routes and store, with shorter timeouts.

import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import type { ResponseDeps } from "../../src/http/finish-response.ts";
import { listen } from "../../src/http/listen.ts";
import { createRequestHandler } from "../../src/http/request-handler.ts";
import { createClientIpResolver } from "../../src/http/request/client-ip.ts";
import type { BodyLimits } from "../../src/http/steps/receive-body.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { createKeys } from "../../src/keys/keys.ts";
import { type Gateway, type GatewayOptions, startGateway } from "../support/gateway.ts";

/** Bun checks idle connections every four seconds; with less than two checks, active streams are closed as well. */
export const IDLE_SECONDS = 8;
const SMALL_BODY_MS = 600;
const LARGE_BODY_MS = 900;
const STRANGER_BODY_MS = 300;

const MASTER = "a master secret of at least 32 characters";

export async function startShortTimeoutGateway(
  options: GatewayOptions = {},
  { descriptors, ...limits }: BodyLimits & Pick<ResponseDeps, "descriptors"> = {},
): Promise<Gateway> {
  const gateway = await startGateway({
    ...options,
    env: { ...options.env, POSTERN_SECRET: MASTER },
  });
  const { db, routes } = gateway.server;
  const master = secret(MASTER);
  const keys = createKeys({ db, master, prefix: "pst" });
  const idempotency = createIdempotency(master);
  const logLines: string[] = [];
  const handle = createRequestHandler({
    routes,
    baseUrl: gateway.url,
    log: createLog({
      level: "debug",
      isPretty: false,
      now: Date.now,
      write: (line) => logLines.push(line),
    }),
    now: Date.now,
    keys: { find: keys.find },
    writes: {
      db,
      beginIdempotent: idempotency.begin,
      finishIdempotent: idempotency.finish,
    },
    clientIpOf: createClientIpResolver([]),
    isDraining: () => false,
    limits: {
      bodyTimeouts: {
        smallBodyMs: SMALL_BODY_MS,
        largeBodyMs: LARGE_BODY_MS,
        anonymousBodyMs: STRANGER_BODY_MS,
      },
      ...limits,
    },
    responses: { descriptors },
  });
  const listener = listen({ host: "127.0.0.1", port: 0, idleSeconds: IDLE_SECONDS }, handle);
  return {
    ...gateway,
    url: `http://127.0.0.1:${listener.port}`,
    logLines,
    stop: async () => {
      await listener.stop(true);
      await gateway.stop();
    },
  };
}
