// The endpoint that lists the credits an account got for breaches of service levels.

import { z } from "zod";
import { keyRoute, type Route } from "../http/route.ts";
import { cursorSchema, listResponse, PageQuery } from "../http/schemas.ts";
import type { Reader } from "../store/db.ts";
import { listServiceCredits, toCreditRecord } from "./service-credits.ts";

const ServiceCreditRecord = z
  .object({
    id: z.string().meta({ description: "Also the id of the transfer in the export." }),
    object: z.literal("service_credit"),
    created_at: z.string(),
    service_level_id: z
      .string()
      .meta({ description: "The service level of `GET /v1/service-levels`." }),
    model: z.string(),
    window_start: z.string().meta({ description: "The window that was evaluated." }),
    window_end: z.string().meta({ description: "Exclusive." }),
    usd: z.number(),
    credits: z.number().meta({ description: "One credit is $0.000001." }),
    reason: z.string().meta({ description: "What was measured, and how the credit was computed." }),
  })
  .meta({ id: "ServiceCredit" });

const EXAMPLE: z.infer<typeof ServiceCreditRecord> = {
  id: "scr_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "service_credit",
  created_at: "2026-11-22T02:00:00.000Z",
  service_level_id: "slv_01kah5t3mq7d2c9w4e6r8t0yax",
  model: "openai/gpt-5.4-mini",
  window_start: "2026-11-21T00:00:00.000Z",
  window_end: "2026-11-22T00:00:00.000Z",
  usd: 0.42,
  credits: 420_000,
  reason:
    "Availability of openai/gpt-5.4-mini was 97.5%, below 99.9% (1 of 40 calls failed): credit of 10% of $4.20.",
};

export function serviceCreditRoutes({ db }: { readonly db: Reader }): readonly Route[] {
  return [
    keyRoute({
      method: "GET",
      path: "/v1/billing/service-credits",
      id: "listServiceCredits",
      tag: "Billing",
      dialect: "openai",
      scope: "billing:read",
      summary: "List service credits",
      description:
        "What the gateway credited because a service level was not met, newest first. `GET /v1/service-levels` lists the levels.",
      query: z.strictObject({ ...PageQuery, cursor: cursorSchema("scr") }),
      responses: listResponse(
        "A page of service credits.",
        ServiceCreditRecord,
        "ServiceCreditList",
        EXAMPLE,
      ),
      faults: [],
      run: async ({ caller, query }) => {
        const page = await listServiceCredits(db, caller.accountId, query);
        return { status: 200, body: { ...page, data: page.data.map(toCreditRecord) } };
      },
    }),
  ];
}
