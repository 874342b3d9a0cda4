// Defaults of the console's routes.

import { z } from "zod";

export const PAGE_DEFAULTS = {
  tag: "Console",
  dialect: "page",
  hidden: true,
  faults: ["not_found", "forbidden"],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

export const AccountPath = z.object({ account: z.string() });
