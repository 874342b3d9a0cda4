// GET /v1/events: the account's events, for agents that cannot receive webhooks.

import { z } from "zod";
import { keyRoute, type Route } from "../http/route.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { balanceAlertRoutes } from "./balance-alert-routes.ts";
import { EVENT_EXAMPLE, EventRecord, toEventRecord } from "./event-record.ts";
import { EVENT_TYPES, listEvents } from "./events.ts";

export interface EventRouteDeps {
  readonly db: Db;
}

export function eventRoutes({ db }: EventRouteDeps): readonly Route[] {
  return [listRoute(db), ...balanceAlertRoutes(db)];
}

function listRoute(db: Db): Route {
  return keyRoute({
    tag: "Webhooks",
    dialect: "openai",
    method: "GET",
    path: "/v1/events",
    id: "listEvents",
    scope: "webhooks:read",
    summary: "List events",
    description:
      "The events that webhooks receive, newest first. They are recorded even without a webhook, so poll this endpoint if you cannot receive webhooks. Kept for 30 days.",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("evt"),
      type: z.enum(EVENT_TYPES).optional().meta({ description: "Only events of this type." }),
    }),
    responses: {
      200: {
        description: "A page of events.",
        schema: listSchema(EventRecord, "EventList"),
        example: { object: "list", data: [EVENT_EXAMPLE], has_more: false, next_cursor: null },
      },
    },
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listEvents(db, caller.accountId, query, query.type);
      return { status: 200, body: { ...page, data: page.data.map(toEventRecord) } };
    },
  });
}
