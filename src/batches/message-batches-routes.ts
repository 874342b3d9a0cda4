// Routes of /v1/messages/batches: Anthropic's form of batches.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { DAY_MS } from "../base/time.ts";
import { reachOf } from "../http/reach.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { memberText } from "../inference/request/json-edit.ts";
import { MessageBatchRecord, ProcessingField, toMessageBatchRecord } from "./batch-record.ts";
import { listBatches } from "./batch-rows.ts";
import type { BatchRouteDeps } from "./batches.ts";
import { bodyItems } from "./create-batch.ts";
import { idCursor, idPageFields, idPageLimit, toIdPage } from "./id-page.ts";
import { BATCH_ID_EXAMPLE, BatchParams, oneBatchRoutes } from "./one-batch-routes.ts";

const BODY_LIMIT_BYTES = 32 * 1_048_576;
const DOC = { tag: "Batches", dialect: "messages" } as const;

const EXAMPLE = {
  id: BATCH_ID_EXAMPLE,
  type: "message_batch",
  processing_status: "in_progress",
  request_counts: { processing: 1, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
  created_at: "2026-11-28T12:00:00.000Z",
  expires_at: "2026-11-29T12:00:00.000Z",
  ended_at: null,
  cancel_initiated_at: null,
  archived_at: null,
  results_url: null,
  processing: "gateway",
  provider: null,
  cost_usd: "0",
};

const NewMessageBatch = z
  .looseObject({
    requests: z
      .array(z.unknown())
      .meta({ description: "Up to 10,000 requests, each with `custom_id` and `params`." }),
    processing: ProcessingField,
  })
  .meta({ id: "NewMessageBatch" });

const LINE_EXAMPLE =
  '{"custom_id":"first","result":{"type":"succeeded","message":{"type":"message"}}}\n';

export function messageBatchRoutes(deps: BatchRouteDeps): readonly Route[] {
  return [
    createRoute(deps),
    listRoute(deps),
    ...oneBatchRoutes(deps.batches, {
      form: "messages",
      doc: DOC,
      path: "/v1/messages/batches",
      name: "MessageBatch",
      noun: "a batch of messages",
      schema: MessageBatchRecord,
      toRecord: (batch) => toMessageBatchRecord(batch, deps.baseUrl),
      example: EXAMPLE,
      cancelingExample: { ...EXAMPLE, processing_status: "canceling" },
      resultsDescription: "One JSON object a line, in the order of the requests.",
      lineExample: LINE_EXAMPLE,
    }),
    deleteRoute(deps),
  ];
}

function createRoute({ batches, baseUrl }: BatchRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/messages/batches",
    id: "createMessageBatch",
    scope: "models:write",
    summary: "Create a batch of messages",
    description:
      "Anthropic's Message Batches API: runs up to 10,000 requests of POST /v1/messages, with any model. Who runs them and what they cost is as for POST /v1/batches.",
    bodyLimitBytes: BODY_LIMIT_BYTES,
    body: NewMessageBatch,
    requestExample: {
      requests: [
        {
          custom_id: "first",
          params: {
            model: "sim/echo",
            max_tokens: 64,
            messages: [{ role: "user", content: "Hello" }],
          },
        },
      ],
    },
    responses: { 200: { description: "The batch.", schema: MessageBatchRecord, example: EXAMPLE } },
    faults: [
      "insufficient_credits",
      "key_limit_reached",
      "workspace_budget_reached",
      "workspace_frozen",
      "conflict",
    ],
    before: ({ caller, body, bodyText, headers }) =>
      batches.prepare({
        caller,
        form: "messages",
        endpoint: "/v1/messages",
        headers,
        metadata: null,
        processing: body.processing,
        inputFileId: null,
        windowMs: DAY_MS,
        items: bodyItems(
          body.requests,
          bodyText,
          ({ custom_id: customId, params }, path, text) => ({
            path,
            customId,
            body: params,
            text: memberText(text, "params"),
          }),
        ),
      }),
    undo: batches.discard,
    run: async (tx, { caller, clientIp, now }, prepared) => {
      const batch = await batches.start(tx, keyAct(caller, { clientIp, now }), prepared);
      const body = toMessageBatchRecord(batch, baseUrl);
      return { status: 200, body, afterCommit: batches.wake };
    },
  });
}

const MessageBatchList = z
  .object(idPageFields(MessageBatchRecord))
  .meta({ id: "MessageBatchList" });

function listRoute({ batches, baseUrl }: BatchRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/messages/batches",
    id: "listMessageBatches",
    scope: "models:read",
    summary: "List batches of messages",
    description:
      "Newest first, also those of POST /v1/batches; a key without `keys:manage` sees its own.",
    query: z.strictObject({
      limit: idPageLimit("batches", { most: 100, usual: 20 }),
      after_id: idCursor("`last_id` of this page, for the next page of older batches."),
      before_id: idCursor("`first_id` of this page, for the page of newer batches."),
    }),
    responses: {
      200: {
        description: "A page of batches.",
        schema: MessageBatchList,
        example: {
          data: [EXAMPLE],
          first_id: BATCH_ID_EXAMPLE,
          last_id: BATCH_ID_EXAMPLE,
          has_more: false,
        },
      },
    },
    faults: [],
    run: async ({ caller, query: { limit, after_id: cursor, before_id: after } }) => {
      const found = await listBatches(batches.db, reachOf(caller), {
        limit,
        cursor,
        after,
      });
      const page = found.slice(0, limit);
      const sorted = after === undefined ? page : page.toReversed();
      const data = sorted.map((batch) => toMessageBatchRecord(batch, baseUrl));
      return {
        status: 200,
        body: toIdPage(data, found.length > limit),
      };
    },
  });
}

function deleteRoute({ batches }: BatchRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/messages/batches/{id}",
    id: "deleteMessageBatch",
    scope: "models:write",
    summary: "Delete a batch",
    description:
      "Deletes a batch that has ended, with its results and the files of them. Batches of POST /v1/batches are deleted here, too.",
    params: BatchParams,
    responses: {
      200: {
        description: "The batch was deleted.",
        schema: z
          .object({ id: z.string(), type: z.literal("message_batch_deleted") })
          .meta({ id: "DeletedMessageBatch" }),
        example: { id: BATCH_ID_EXAMPLE, type: "message_batch_deleted" },
      },
    },
    faults: ["not_found", "conflict"],
    run: async (tx, { caller, params: { id }, clientIp, now }) => {
      await batches.remove(tx, keyAct(caller, { clientIp, now }), reachOf(caller), id);
      return { status: 200, body: { id, type: "message_batch_deleted" } };
    },
  });
}
