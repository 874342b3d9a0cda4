// Routes of /v1/sinks.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  NEW_SINK_EXAMPLE,
  NewSink,
  SINK_EXAMPLE,
  SINK_NAME,
  SinkRecord,
  toSinkRecord,
} from "./sink-record.ts";
import { listSinks } from "./sink-rows.ts";
import { countQueuedCalls, deleteSink, getSink, saveSink, type SinkDeps } from "./sinks.ts";

const DOC = { tag: "Sinks", dialect: "openai" } as const;
const ONE = { 200: { description: "The sink.", schema: SinkRecord, example: SINK_EXAMPLE } };

const SinkPath = z.object({ name: SINK_NAME });

export interface SinkRouteDeps {
  readonly db: Db;
  readonly sinks: SinkDeps;
  /** Other processes notice a change within seconds. */
  readonly onChanged: () => void;
}

export function sinkRoutes(deps: SinkRouteDeps): readonly Route[] {
  return [listRoute(deps), getRoute(deps), saveRoute(deps), deleteRoute(deps)];
}

function listRoute({ db }: SinkRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/sinks",
    id: "listSinks",
    scope: "usage:read",
    summary: "List sinks",
    description: "At most 5, by name.",
    query: z.strictObject({}),
    responses: {
      200: {
        description: "All sinks.",
        schema: z
          .object({ object: z.literal("list"), data: z.array(SinkRecord) })
          .meta({ id: "SinkList" }),
        example: { object: "list", data: [SINK_EXAMPLE] },
      },
    },
    faults: [],
    run: async ({ caller: { accountId } }) => {
      const [sinks, queued] = await Promise.all([
        listSinks(db, accountId),
        countQueuedCalls(db, accountId),
      ]);
      const data = sinks.map((sink) => toSinkRecord(sink, queued.get(sink.name) ?? 0));
      return { status: 200, body: { object: "list", data } };
    },
  });
}

function getRoute({ db }: SinkRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/sinks/{name}",
    id: "getSink",
    scope: "usage:read",
    summary: "Get a sink",
    params: SinkPath,
    query: z.strictObject({}),
    responses: ONE,
    faults: ["not_found"],
    run: async ({ caller: { accountId }, params: { name } }) => {
      const sink = await getSink(db, accountId, name);
      const queued = (await countQueuedCalls(db, accountId)).get(name) ?? 0;
      return { status: 200, body: toSinkRecord(sink, queued) };
    },
  });
}

function saveRoute({ sinks, onChanged }: SinkRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/sinks/{name}",
    id: "saveSink",
    scope: "account:write",
    summary: "Save a sink",
    description:
      "Creates it, or replaces its settings and enables it. The usage of all calls that end from then on is sent there. See `/docs/sinks`.",
    params: SinkPath,
    body: NewSink.meta({ id: "NewSink" }),
    requestExample: NEW_SINK_EXAMPLE,
    responses: ONE,
    faults: ["conflict"],
    run: async (tx, { caller, params: { name }, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const sink = await saveSink(tx, act, { name, sink: body }, sinks);
      const queued = (await countQueuedCalls(tx, caller.accountId)).get(name) ?? 0;
      return { status: 200, body: toSinkRecord(sink, queued), afterCommit: onChanged };
    },
  });
}

function deleteRoute({ onChanged }: SinkRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/sinks/{name}",
    id: "deleteSink",
    scope: "account:write",
    summary: "Delete a sink",
    description: "What it has not sent yet is not sent any more.",
    params: SinkPath,
    responses: {
      200: {
        description: "The sink is deleted.",
        schema: z
          .object({ object: z.literal("sink"), name: z.string(), deleted: z.literal(true) })
          .meta({ id: "DeletedSink" }),
        example: { object: "sink", name: SINK_EXAMPLE.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await deleteSink(tx, keyAct(caller, { clientIp, now }), name);
      const body = { object: "sink", name, deleted: true };
      return { status: 200, body, afterCommit: onChanged };
    },
  });
}
