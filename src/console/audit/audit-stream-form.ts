// The form of the page of the audit log's stream.

import { z } from "zod";
import { STREAM_KINDS } from "../../activity/audit-stream-rows.ts";

export const AuditStreamForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("save"),
    kind: z.enum(STREAM_KINDS),
    url: z.string(),
    header_name: z.string().default(""),
    header_value: z.string().default(""),
  }),
  z.object({ do: z.literal("remove") }),
]);
export type AuditStreamForm = z.infer<typeof AuditStreamForm>;
