// The routes of one batch that both APIs of batches have: get it, cancel it, and read its results.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { reachOf } from "../http/reach.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import type { Batch, BatchForm } from "./batch-rows.ts";
import { type Batches, getBatch, unfinishedFault } from "./batches.ts";
import { resultsResponse } from "./results.ts";

export const BATCH_ID_EXAMPLE = "batch_01kvf2q8xn3m5r7t9w1y4z6b8d";

export const BatchParams = z.object({
  id: z.string().max(200).meta({ description: "The batch's id.", example: BATCH_ID_EXAMPLE }),
});

/** What the two APIs have of their own. */
export interface BatchApi {
  readonly form: BatchForm;
  readonly doc: Pick<Route, "tag" | "dialect">;
  /** The path of the list. */
  readonly path: string;
  /** The name in operation ids. */
  readonly name: "Batch" | "MessageBatch";
  /** The name in summaries. */
  readonly noun: string;
  readonly schema: z.ZodType;
  readonly toRecord: (batch: Batch) => object;
  readonly example: object;
  readonly cancelingExample: object;
  readonly resultsDescription: string;
  readonly lineExample: string;
}

export function oneBatchRoutes(batches: Batches, api: BatchApi): readonly Route[] {
  return [retrieveRoute(batches, api), cancelRoute(batches, api), resultsRoute(batches, api)];
}

function retrieveRoute({ db }: Batches, api: BatchApi): Route {
  const { doc, path, name, noun, schema, example, toRecord } = api;
  return keyRoute({
    ...doc,
    method: "GET",
    path: `${path}/{id}`,
    id: `get${name}`,
    scope: "models:read",
    summary: `Get ${noun}`,
    params: BatchParams,
    responses: oneResponse("The batch.", schema, example),
    faults: ["not_found"],
    run: async ({ caller, params: { id } }) => ({
      status: 200,
      body: toRecord(await getBatch(db, reachOf(caller), id)),
    }),
  });
}

function cancelRoute(batches: Batches, api: BatchApi): Route {
  const { doc, path, name, noun, schema, cancelingExample, toRecord } = api;
  return keyWriteRoute({
    ...doc,
    method: "POST",
    path: `${path}/{id}/cancel`,
    id: `cancel${name}`,
    scope: "models:write",
    summary: `Cancel ${noun}`,
    description:
      "Requests that run are finished and charged; the others are canceled and cost nothing. Canceling again changes nothing.",
    params: BatchParams,
    responses: oneResponse("The batch, which is being canceled.", schema, cancelingExample),
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params: { id }, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const batch = await batches.cancel(tx, act, reachOf(caller), id);
      return { status: 200, body: toRecord(batch) };
    },
  });
}

function resultsRoute({ db, kek }: Batches, api: BatchApi): Route {
  const { doc, path, name, noun, form, resultsDescription, lineExample } = api;
  return keyRoute({
    ...doc,
    method: "GET",
    path: `${path}/{id}/results`,
    id: `get${name}Results`,
    scope: "models:read",
    summary: `Get the results of ${noun}`,
    description: resultsDescription,
    params: BatchParams,
    responses: {
      200: {
        description: "The lines.",
        contentType: "application/x-jsonl",
        example: lineExample,
      },
    },
    faults: ["not_found", "conflict"],
    run: async ({ caller, params: { id } }) => {
      const batch = await getBatch(db, reachOf(caller), id);
      if (batch.endedAt === null) throw unfinishedFault(id);
      return resultsResponse(db, kek, { batch, form });
    },
  });
}
