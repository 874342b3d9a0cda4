// The form of the page Directory sync.

import { z } from "zod";
import { MEMBER_ROLES } from "../../accounts/members.ts";

export const DirectoryForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("create_token") }),
  z.object({
    do: z.literal("save"),
    fallback_role: z.enum(MEMBER_ROLES),
    keys: z.enum(["revoke", "hand_over"]),
  }),
  z.object({
    do: z.literal("set_role"),
    group: z.string().max(100),
    role: z.enum([...MEMBER_ROLES, ""]),
  }),
  z.object({ do: z.literal("disable") }),
]);
export type DirectoryForm = z.infer<typeof DirectoryForm>;
