// Routes of /healthz, /readyz and /metrics.

import { z } from "zod";
import { type Secret, timingSafeEqualText } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { oneResponse, publicRoute, type Route } from "../http/route.ts";
import { type Metrics, METRICS_CONTENT_TYPE } from "./metrics.ts";

const Liveness = z
  .object({ status: z.literal("ok"), version: z.string() })
  .meta({ id: "Liveness" });
const Health = z
  .object({
    status: z.enum(["ok", "draining", "store unavailable"]).meta({
      description: "Whether the process accepts calls; `draining` while it shuts down.",
    }),
  })
  .meta({ id: "Health" });

export interface OperationsDeps {
  readonly version: string;
  readonly metrics: Metrics;
  /** Whether the store accepts writes. */
  readonly isWritable: () => Promise<boolean>;
  readonly isDraining: () => boolean;
  /** Metrics show the gateway's traffic: public in development; elsewhere they require a token, or are off. */
  readonly metricsAccess: "open" | "off" | Secret;
}

export function operationsRoutes(deps: OperationsDeps): readonly Route[] {
  const { version } = deps;
  return [
    publicRoute({
      method: "GET",
      path: "/healthz",
      id: "checkLiveness",
      tag: "Operations",
      summary: "Check liveness",
      dialect: "openai",
      responses: oneResponse("The process is alive and runs this version.", Liveness, {
        status: "ok",
        version: "1.0.0",
      }),
      faults: [],
      run: () => ({
        status: 200,
        body: { status: "ok", version },
        headers: { "cache-control": "no-store" },
      }),
    }),
    publicRoute({
      method: "GET",
      path: "/readyz",
      id: "checkReadiness",
      tag: "Operations",
      summary: "Check readiness",
      dialect: "openai",
      responses: {
        200: {
          description:
            "The store accepted a write in the last second, and the process is not shutting down.",
          schema: Health,
          example: { status: "ok" },
        },
        503: {
          description: "The process is shutting down or cannot write to the store.",
          schema: Health,
          example: { status: "draining" },
        },
      },
      faults: [],
      run: async () => {
        const status = await readinessStatus(deps);
        return {
          status: status === "ok" ? 200 : 503,
          body: { status },
          headers: { "cache-control": "no-store" },
        };
      },
    }),
    metricsRoute(deps),
  ];
}

function metricsRoute({ metrics, metricsAccess }: OperationsDeps): Route {
  return publicRoute({
    method: "GET",
    path: "/metrics",
    id: "getMetrics",
    tag: "Operations",
    summary: "Get Prometheus metrics",
    credential: "metricsToken",
    description:
      "Outside development, send the operator's `POSTERN_METRICS_TOKEN` as `authorization: Bearer <token>`; without that setting the endpoint is off.",
    dialect: "openai",
    responses: {
      200: {
        description: "Metrics in the Prometheus text format.",
        contentType: "text/plain; version=0.0.4",
      },
    },
    faults: ["invalid_api_key", "not_found"],
    run: ({ headers }) => {
      requireMetricsAccess(metricsAccess, headers);
      return new Response(metrics.render(), {
        headers: { "content-type": METRICS_CONTENT_TYPE, "cache-control": "no-store" },
      });
    },
  });
}

function requireMetricsAccess(access: OperationsDeps["metricsAccess"], headers: Headers): void {
  if (access === "open") return;
  if (access === "off")
    throw new Fault("not_found", "metrics are off", {
      message: "Metrics are off. The operator turns them on with POSTERN_METRICS_TOKEN.",
    });
  const sent = /^bearer +(\S.*)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
  if (!timingSafeEqualText(sent, access.reveal()))
    throw new Fault("invalid_api_key", "wrong metrics token", {
      message: "Send the metrics token (POSTERN_METRICS_TOKEN) as `authorization: Bearer <token>`.",
    });
}

async function readinessStatus({
  isDraining,
  isWritable,
}: OperationsDeps): Promise<z.infer<typeof Health>["status"]> {
  if (isDraining()) return "draining";
  return (await isWritable()) ? "ok" : "store unavailable";
}
