// A sink as the API has it. Secrets are written and never shown.

import { z } from "zod";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { type Sink, SINK_STATUSES } from "./sink-rows.ts";

const Url = z.string().min(1).max(2_048);

const OTLP_FIELDS = {
  type: z.literal("otlp"),
  url: Url.meta({
    description: "The HTTPS URL that gets traces, such as one ending in /v1/traces.",
  }),
  include_texts: z.boolean().default(false).meta({
    description: "Also requests and replies of keys with prompt logging.",
  }),
};
const S3_FIELDS = {
  type: z.literal("s3"),
  url: Url.meta({ description: "The HTTPS endpoint of the service." }),
  bucket: z.string().max(63),
  prefix: z.string().max(200).default("").meta({ description: "Such as `usage/`." }),
  region: z
    .string()
    .regex(/^[a-z0-9-]{2,40}$/, "must be the name of a region")
    .default("us-east-1"),
  access_key_id: z.string().max(128),
  format: z.enum(["jsonl", "csv"]).default("jsonl"),
  every: z.enum(["hour", "day"]).default("day"),
};

export const NewSink = z.discriminatedUnion("type", [
  z.strictObject({
    ...OTLP_FIELDS,
    headers: z.record(z.string(), z.string().max(2_000)).optional().meta({
      description:
        "Up to ten, such as authorization. Left out, they stay; another URL needs them again. `{}` removes them.",
    }),
  }),
  z.strictObject({
    ...S3_FIELDS,
    secret_access_key: z.string().min(1).max(2_000).optional().meta({
      description: "Left out, that of the same URL and access key stays.",
    }),
  }),
]);
export type NewSink = z.infer<typeof NewSink>;

export const SinkRecord = z
  .object({
    object: z.literal("sink"),
    name: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    status: z.enum(SINK_STATUSES).meta({
      description: "`disabled` after a day of failures. Save it again to enable it.",
    }),
    disabled_reason: z.string().nullable(),
    delivered_at: z.string().nullable().meta({ description: "The last success." }),
    failing_since: z.string().nullable(),
    last_error: z.string().nullable(),
    queued: z.int().meta({ description: "Calls that were not sent yet." }),
    settings: z.discriminatedUnion("type", [
      z.object({
        ...OTLP_FIELDS,
        headers: z.array(z.string()).meta({ description: "Their names." }),
      }),
      z.object(S3_FIELDS),
    ]),
  })
  .meta({ id: "Sink" });

export const NEW_SINK_EXAMPLE = {
  type: "otlp",
  url: "https://cloud.langfuse.com/api/public/otel/v1/traces",
  headers: { authorization: "Basic cGstbGYtMTIzOnNrLWxmLTQ1Ng==" },
};

export const SINK_EXAMPLE = {
  object: "sink",
  name: "langfuse",
  created_at: "2026-11-29T09:30:00.000Z",
  updated_at: "2026-11-29T09:30:00.000Z",
  status: "active",
  disabled_reason: null,
  delivered_at: null,
  failing_since: null,
  last_error: null,
  queued: 0,
  settings: {
    type: "otlp",
    url: NEW_SINK_EXAMPLE.url,
    headers: ["authorization"],
    include_texts: false,
  },
};

export function toSinkRecord(sink: Sink, queued: number) {
  return {
    object: "sink",
    name: sink.name,
    created_at: timestamp(sink.createdAt),
    updated_at: timestamp(sink.updatedAt),
    status: sink.status,
    disabled_reason: sink.disabledReason,
    delivered_at: timestampOrNull(sink.deliveredAt),
    failing_since: timestampOrNull(sink.failingSince),
    last_error: sink.lastError,
    queued,
    settings: sink.settings,
  };
}
