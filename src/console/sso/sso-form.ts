// The form of the single sign-on page.

import { z } from "zod";
import { MEMBER_ROLES } from "../../accounts/members.ts";

const Domain = z.string().max(253);

export const SsoForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("add_domain"), domain: Domain }),
  z.object({ do: z.literal("check_domain"), domain: Domain }),
  z.object({ do: z.literal("remove_domain"), domain: Domain }),
  z.object({
    do: z.literal("save"),
    issuer: z.string(),
    client_id: z.string(),
    client_secret: z.string().default(""),
    default_role: z.enum([...MEMBER_ROLES, ""]).default(""),
  }),
  z.object({ do: z.literal("remove") }),
  z.object({ do: z.literal("require") }),
  z.object({ do: z.literal("allow") }),
]);
export type SsoForm = z.infer<typeof SsoForm>;
