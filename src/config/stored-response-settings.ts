// Settings of stored responses.

import { z } from "zod";
import { STORE_MODES } from "../base/response-storage.ts";
import { integer } from "./setting-schemas.ts";

export const RESPONSE_STORAGE_SETTINGS = {
  POSTERN_STORE_RESPONSES: {
    defaultValue: "by_default",
    description:
      "Which responses of `/v1/responses` are stored, encrypted: all without `store: false` (`by_default`, as at OpenAI), those with `store: true` (`on_request`), or none (`never`). Accounts can choose a stricter setting.",
  },
  POSTERN_RESPONSE_RETENTION_DAYS: {
    defaultValue: "30",
    description:
      "Days after which stored responses are deleted, 1 to 365. Accounts can choose a shorter time.",
  },
} as const;

export const RESPONSE_STORAGE_ENVIRONMENT = {
  POSTERN_STORE_RESPONSES: z
    .enum(STORE_MODES, { error: `must be ${STORE_MODES.join(", ")}` })
    .default("by_default"),
  POSTERN_RESPONSE_RETENTION_DAYS: integer(1, 365).default(30),
};
