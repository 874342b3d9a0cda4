// The routes of the pages of the system, of providers, and of grants and abuse.

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { pageResponse } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { emptyAsUndefined, type OperatorContext, pageRoute } from "../page-context.ts";
import { readGrantFigures, readNetworkUse, readVerifiedAgentUse } from "./grant-figures.ts";
import { GRANT_PERIODS, GRANTS_PATH, grantsPage } from "./grants-page.tsx";
import { readProviderHealth } from "./provider-health.ts";
import { PROVIDERS_PATH, providersPage } from "./providers-page.tsx";
import { readQueues } from "./queues.ts";
import { SYSTEM_PATH, systemPage } from "./system-page.tsx";

export function systemRoutes(context: OperatorContext): readonly Route[] {
  const { db, system } = context;
  return [
    pageRoute(context, {
      path: SYSTEM_PATH,
      id: "showSystem",
      summary: "Show jobs, queues and settings",
      run: async (_input, operator) =>
        pageResponse(systemPage(operator, { system, queues: await readQueues(db) })),
    }),
    pageRoute(context, {
      path: PROVIDERS_PATH,
      id: "showProviders",
      summary: "Show the health, error rates and cost of providers",
      run: async ({ now }, operator) =>
        pageResponse(providersPage(operator, await readProviderHealth(db, system, now))),
    }),
    pageRoute(context, {
      path: GRANTS_PATH,
      id: "showGrants",
      summary: "Show starting credit and the networks that created accounts",
      query: z.object({ days: emptyAsUndefined(z.enum(GRANT_PERIODS)) }),
      run: async ({ query, now }, operator) => {
        const days = query.days ?? "7";
        const { grantPerDay, verifiedAgents } = system;
        const listed = verifiedAgents.map(({ url }) => url);
        const page = await db.snapshot(async (reader) => ({
          figures: await readGrantFigures(reader, now),
          agents: await readVerifiedAgentUse(reader, listed, now),
          networks: await readNetworkUse(reader, now - Number(days) * DAY_MS),
        }));
        return pageResponse(grantsPage(operator, { days, grantPerDay, verifiedAgents, ...page }));
      },
    }),
  ];
}
