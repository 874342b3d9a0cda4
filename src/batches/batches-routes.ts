// Routes of /v1/batches: OpenAI's form of batches, with requests from a file or in the body.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { invalid } from "../base/fault.ts";
import { HOUR_MS } from "../base/time.ts";
import { reachOf } from "../http/reach.ts";
import { type Caller, keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { BatchRecord, ProcessingField, toBatchRecord } from "./batch-record.ts";
import { listBatches } from "./batch-rows.ts";
import type { Batches, BatchRouteDeps } from "./batches.ts";
import { bodyItems, type NewBatchRequest } from "./create-batch.ts";
import { fileItems, fileParts, getFile, toSentItem } from "./files/file-content.ts";
import { idCursor, idPageFields, idPageLimit, toIdPage } from "./id-page.ts";
import { BATCH_ENDPOINTS } from "./item-call.ts";
import { messageBatchRoutes } from "./message-batches-routes.ts";
import { BATCH_ID_EXAMPLE, oneBatchRoutes } from "./one-batch-routes.ts";

const BODY_LIMIT_BYTES = 32 * 1_048_576;
const WINDOW_HOURS_MAX = 24;

const DOC = { tag: "Batches", dialect: "openai" } as const;

const EXAMPLE = {
  id: BATCH_ID_EXAMPLE,
  object: "batch",
  endpoint: "/v1/chat/completions",
  errors: null,
  input_file_id: null,
  completion_window: "24h",
  status: "in_progress",
  output_file_id: null,
  error_file_id: null,
  created_at: 1_795_000_000,
  in_progress_at: 1_795_000_001,
  expires_at: 1_795_086_400,
  completed_at: null,
  expired_at: null,
  cancelling_at: null,
  cancelled_at: null,
  failed_at: null,
  finalizing_at: null,
  request_counts: { total: 2, completed: 0, failed: 0 },
  metadata: null,
  processing: "gateway",
  provider: null,
  cost_usd: "0",
};

const NewBatch = z
  .looseObject({
    endpoint: z
      .enum(BATCH_ENDPOINTS)
      .meta({ description: "The endpoint of all requests of the batch." }),
    input_file_id: z
      .string()
      .max(200)
      .optional()
      .meta({ description: "A file of POST /v1/files with one request a line." }),
    requests: z.array(z.unknown()).optional().meta({
      description:
        "Instead of `input_file_id`: up to 10,000 requests, each with `custom_id` and `body`.",
    }),
    completion_window: z
      .string()
      .regex(/^(?:[1-9]|1\d|2[0-4])h$/, "must be 1h to 24h")
      .default(`${WINDOW_HOURS_MAX}h`)
      .meta({ description: "Requests that were not run in this time expire. Default: 24h." }),
    processing: ProcessingField,
    metadata: z
      .record(z.string().max(64), z.string().max(512))
      .nullable()
      .optional()
      .meta({ description: "Up to 16 texts of your own." }),
  })
  .meta({ id: "NewBatch" });

const LINE_EXAMPLE = `{"id":"${BATCH_ID_EXAMPLE}_0","custom_id":"first","response":{"status_code":200,"request_id":"req_01kvf2q8xn3m5r7t9w1y4z6b8d","body":{"object":"chat.completion"}},"error":null}\n`;

export function batchRoutes(deps: BatchRouteDeps): readonly Route[] {
  return [
    createRoute(deps),
    listRoute(deps),
    ...oneBatchRoutes(deps.batches, {
      form: "openai",
      doc: DOC,
      path: "/v1/batches",
      name: "Batch",
      noun: "a batch",
      schema: BatchRecord,
      toRecord: toBatchRecord,
      example: EXAMPLE,
      cancelingExample: { ...EXAMPLE, status: "cancelling", cancelling_at: 1_795_000_100 },
      resultsDescription:
        "One JSON object a line, in the order of the requests: results and errors. `output_file_id` and `error_file_id` have the same lines, apart.",
      lineExample: LINE_EXAMPLE,
    }),
    ...messageBatchRoutes(deps),
  ];
}

const REFUSALS = [
  "insufficient_credits",
  "key_limit_reached",
  "workspace_budget_reached",
  "workspace_frozen",
  "not_found",
  "conflict",
] as const;

function createRoute({ batches }: BatchRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/batches",
    id: "createBatch",
    scope: "models:write",
    summary: "Create a batch",
    description:
      "Runs up to 10,000 requests of one endpoint: a provider at its batch price, or the gateway at low priority, as `processing` says. The most that all of them can cost is held at once, and the hold shrinks as they end. A request that its key may not make, or whose model does not exist, ends with that error and costs nothing; a request that is not well formed fails the whole batch. The event `batch.ended` says when it has ended.",
    bodyLimitBytes: BODY_LIMIT_BYTES,
    body: NewBatch,
    requestExample: {
      endpoint: "/v1/chat/completions",
      requests: [
        {
          custom_id: "first",
          body: { model: "sim/echo", messages: [{ role: "user", content: "Hello" }] },
        },
      ],
    },
    responses: { 200: { description: "The batch.", schema: BatchRecord, example: EXAMPLE } },
    faults: REFUSALS,
    before: async ({ caller, body, bodyText, headers, now }) =>
      batches.prepare({
        caller,
        form: "openai",
        endpoint: body.endpoint,
        headers,
        metadata: readMetadata(body.metadata),
        processing: body.processing,
        inputFileId: body.input_file_id ?? null,
        windowMs: Number.parseInt(body.completion_window, 10) * HOUR_MS,
        items: await readItems(batches, caller, { ...body, bodyText, now }),
      }),
    undo: batches.discard,
    run: async (tx, { caller, clientIp, now }, prepared) => {
      const batch = await batches.start(tx, keyAct(caller, { clientIp, now }), prepared);
      return { status: 200, body: toBatchRecord(batch), afterCommit: batches.wake };
    },
  });
}

const METADATA_MAX = 16;

function readMetadata(metadata: z.infer<typeof NewBatch>["metadata"]): NewBatchRequest["metadata"] {
  if (metadata === undefined || metadata === null) return null;
  if (Object.keys(metadata).length > METADATA_MAX)
    throw invalid("metadata", `\`metadata\` may have at most ${METADATA_MAX} members.`);
  return metadata;
}

async function readItems(
  { db, kek }: Batches,
  caller: Caller,
  {
    requests,
    endpoint,
    input_file_id: fileId,
    bodyText,
    now,
  }: z.infer<typeof NewBatch> & { readonly bodyText: string; readonly now: number },
): Promise<NewBatchRequest["items"]> {
  if ((requests === undefined) === (fileId === undefined))
    throw invalid("requests", "Send either `requests` or `input_file_id`.");
  if (requests !== undefined)
    return bodyItems(requests, bodyText, (request, path, text) =>
      toSentItem(request, path, { endpoint, text }),
    );
  const options = { now, param: "input_file_id" };
  const file = await getFile(db, reachOf(caller), fileId ?? "", options);
  if (file.purpose !== "batch")
    throw invalid(
      "input_file_id",
      `The file ${file.id} has the purpose \`${file.purpose}\`. Send a file that was uploaded with the purpose \`batch\`.`,
    );
  return fileItems(fileParts(db, kek, file), endpoint);
}

const BATCH_LIST_EXAMPLE = {
  object: "list",
  data: [EXAMPLE],
  first_id: BATCH_ID_EXAMPLE,
  last_id: BATCH_ID_EXAMPLE,
  has_more: false,
};

const BatchList = z
  .object({
    object: z.literal("list"),
    ...idPageFields(BatchRecord),
  })
  .meta({ id: "BatchList" });

function listRoute({ batches }: BatchRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/batches",
    id: "listBatches",
    scope: "models:read",
    summary: "List batches",
    description:
      "Newest first, of all keys of the account; a key without `keys:manage` sees its own.",
    query: z.strictObject({
      limit: idPageLimit("batches", { most: 100, usual: 20 }),
      after: idCursor("`last_id` of the previous page."),
    }),
    responses: {
      200: { description: "A page of batches.", schema: BatchList, example: BATCH_LIST_EXAMPLE },
    },
    faults: [],
    run: async ({ caller, query: { limit, after } }) => {
      const found = await listBatches(batches.db, reachOf(caller), {
        limit,
        cursor: after,
      });
      const data = found.slice(0, limit).map(toBatchRecord);
      return {
        status: 200,
        body: { object: "list", ...toIdPage(data, found.length > limit) },
      };
    },
  });
}
