// Routes of /v1/files: input and output of batches.

import { z } from "zod";
import { keyAct } from "../../activity/audit.ts";
import { reachOf } from "../../http/reach.ts";
import { keyRoute, keyWriteRoute, type Route } from "../../http/route.ts";
import { idCursor, idPageFields, idPageLimit, toIdPage } from "../id-page.ts";
import { getFile } from "./file-content.ts";
import { FILE_PURPOSES, listFiles, type StoredFile } from "./file-rows.ts";
import { type Files, UPLOAD_MAX_BYTES } from "./files.ts";

const DOC = { tag: "Files", dialect: "openai" } as const;
const ID_EXAMPLE = "file_01kvf2q8xn3m5r7t9w1y4z6b8d";

const params = z.object({
  id: z.string().max(200).meta({ description: "The file's id.", example: ID_EXAMPLE }),
});

const FileRecord = z
  .object({
    id: z.string(),
    object: z.literal("file"),
    bytes: z.int().describe("Its size."),
    created_at: z.int(),
    expires_at: z.int().describe("When it is deleted."),
    filename: z.string().describe("Its name."),
    purpose: z.enum(FILE_PURPOSES),
    status: z.literal("processed"),
  })
  .meta({
    id: "File",
    description: "A file in the form of OpenAI's API: times are in Unix seconds.",
  });

const EXAMPLE = {
  id: ID_EXAMPLE,
  object: "file",
  bytes: 240,
  created_at: 1_795_000_000,
  expires_at: 1_797_592_000,
  filename: "requests.jsonl",
  purpose: "batch",
  status: "processed",
};

function toFileRecord(file: StoredFile): z.infer<typeof FileRecord> {
  const { id, bytes, createdAt, expiresAt, filename, purpose } = file;
  return {
    id,
    object: "file",
    bytes,
    created_at: Math.floor(createdAt / 1_000),
    expires_at: Math.floor(expiresAt / 1_000),
    filename,
    purpose,
    status: "processed",
  };
}

export function fileRoutes(files: Files): readonly Route[] {
  return [
    uploadRoute(files),
    listRoute(files),
    retrieveRoute(files),
    contentRoute(files),
    deleteRoute(files),
  ];
}

const Upload = z
  .object({
    file: z.string().meta({
      description: "The content: one JSON object a line, in UTF-8.",
      format: "binary",
    }),
    purpose: z.literal("batch"),
    "expires_after[seconds]": z
      .string()
      .optional()
      .meta({ description: "When the file is deleted. Default: after 30 days." }),
  })
  .meta({ id: "FileUpload" });

function uploadRoute(files: Files): Route {
  return keyRoute({
    ...DOC,
    method: "POST",
    path: "/v1/files",
    id: "uploadFile",
    scope: "models:write",
    summary: "Upload a file",
    description:
      'The requests of a batch, one a line: `{"custom_id": …, "method": "POST", "url": "/v1/chat/completions", "body": {…}}`. Send `multipart/form-data`. At most 100 MiB; an account stores 500 files of 1 GiB in all, encrypted.',
    multipart: "streamed",
    bodyLimitBytes: UPLOAD_MAX_BYTES,
    body: Upload,
    requestExample: { purpose: "batch", file: "@requests.jsonl" },
    responses: { 200: { description: "The file.", schema: FileRecord, example: EXAMPLE } },
    faults: ["conflict", "payload_too_large", "unsupported_media_type", "rate_limited"],
    run: async ({ caller, clientIp, now, request }) => {
      const file = await files.upload(keyAct(caller, { clientIp, now }), request);
      return { status: 200, body: toFileRecord(file) };
    },
  });
}

function listRoute({ db }: Files): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/files",
    id: "listFiles",
    scope: "models:read",
    summary: "List files",
    description: "Of all keys of the account; a key without `keys:manage` sees its own.",
    query: z.strictObject({
      limit: idPageLimit("files", { most: 10_000, usual: 100 }),
      order: z
        .enum(["asc", "desc"])
        .default("desc")
        .meta({ description: "`desc` for the newest first." }),
      after: idCursor("`last_id` of the previous page."),
      purpose: z.enum(FILE_PURPOSES).optional().meta({ description: "Only such files." }),
    }),
    responses: {
      200: {
        description: "A page of files.",
        schema: z
          .object({
            object: z.literal("list"),
            ...idPageFields(FileRecord),
          })
          .meta({ id: "FileList" }),
        example: {
          object: "list",
          data: [EXAMPLE],
          first_id: ID_EXAMPLE,
          last_id: ID_EXAMPLE,
          has_more: false,
        },
      },
    },
    faults: [],
    run: async ({ caller, query, now }) => {
      const { limit, after, order, purpose } = query;
      const filter = { limit, after, order, purpose };
      const found = await listFiles(db, reachOf(caller), filter, now);
      const data = found.slice(0, limit).map(toFileRecord);
      return {
        status: 200,
        body: { object: "list", ...toIdPage(data, found.length > limit) },
      };
    },
  });
}

function retrieveRoute({ db }: Files): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/files/{id}",
    id: "getFile",
    scope: "models:read",
    summary: "Get a file",
    params,
    responses: { 200: { description: "The file.", schema: FileRecord, example: EXAMPLE } },
    faults: ["not_found"],
    run: async ({ caller, params: { id }, now }) => ({
      status: 200,
      body: toFileRecord(await getFile(db, reachOf(caller), id, { now })),
    }),
  });
}

function contentRoute(files: Files): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/files/{id}/content",
    id: "getFileContent",
    scope: "models:read",
    summary: "Get the content of a file",
    params,
    responses: {
      200: {
        description: "The content.",
        contentType: "application/octet-stream",
        example: '{"custom_id":"first","method":"POST","url":"/v1/chat/completions","body":{}}\n',
      },
    },
    faults: ["not_found"],
    run: ({ caller, params: { id }, now }) => files.content(reachOf(caller), id, now),
  });
}

function deleteRoute(files: Files): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/files/{id}",
    id: "deleteFile",
    scope: "models:write",
    summary: "Delete a file",
    description: "Batches that were created from the file are not changed.",
    params,
    responses: {
      200: {
        description: "The file was deleted.",
        schema: z
          .object({ id: z.string(), object: z.literal("file"), deleted: z.literal(true) })
          .meta({ id: "DeletedFile" }),
        example: { id: ID_EXAMPLE, object: "file", deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { id }, clientIp, now }) => {
      await files.remove(tx, keyAct(caller, { clientIp, now }), reachOf(caller), id);
      return { status: 200, body: { id, object: "file", deleted: true } };
    },
  });
}
