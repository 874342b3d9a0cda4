// Routes of /v1/sinks.

import { namedResourceRoutes } from "../activity/named-resource-routes.ts";
import type { EndpointDeps } from "../base/network/public-endpoint.ts";
import type { Route } from "../http/route.ts";
import type { Db, Reader } from "../store/db.ts";
import {
  NEW_SINK_EXAMPLE,
  NewSink,
  SINK_EXAMPLE,
  SinkRecord,
  toSinkRecord,
} from "./sink-record.ts";
import { listSinks } from "./sink-rows.ts";
import { countQueuedCalls, deleteSink, getSink, saveSink } from "./sinks.ts";

export interface SinkRouteDeps extends EndpointDeps {
  readonly db: Db;
  readonly onChanged: () => void;
}

export function sinkRoutes(deps: SinkRouteDeps): readonly Route[] {
  const { db, onChanged } = deps;
  return namedResourceRoutes({
    db,
    path: "/v1/sinks",
    object: "sink",
    id: "Sink",
    noun: "sink",
    tag: "Sinks",
    record: SinkRecord,
    example: SINK_EXAMPLE,
    settings: NewSink.meta({ id: "NewSink" }),
    settingsExample: NEW_SINK_EXAMPLE,
    // Developers, whose keys read usage, do not see sinks in the console either: a URL can contain a secret.
    readScope: "account:write",
    notes: {
      list: "At most 5, by name.",
      save: "Creates it, or replaces its settings and enables it. The usage of all calls that end from then on is sent there. See `/docs/sinks`.",
      delete: "What it has not sent yet is not sent any more.",
    },
    list: async (reader, accountId) => {
      const [sinks, queued] = await Promise.all([
        listSinks(reader, accountId),
        countQueuedCalls(reader, accountId),
      ]);
      return sinks.map((sink) => toSinkRecord(sink, queued.get(sink.name) ?? 0));
    },
    get: async (reader, accountId, name) =>
      toSinkRecord(await getSink(reader, accountId, name), await queuedOf(reader, accountId, name)),
    save: async (tx, act, name, sink) =>
      toSinkRecord(
        await saveSink(tx, act, { name, sink }, deps),
        await queuedOf(tx, act.accountId, name),
      ),
    remove: deleteSink,
    onChanged,
  });
}

async function queuedOf(reader: Reader, accountId: string, name: string): Promise<number> {
  return (await countQueuedCalls(reader, accountId)).get(name) ?? 0;
}
