// Reads a form by the schema of the API, for pages whose forms have the fields of a body.

import type { z } from "zod";
import { Fault, invalid } from "../base/fault.ts";
import { parseWithSchema } from "../http/request/validate.ts";

/** What a person typed, so an error is theirs to correct and not that of a stale form. */
export function checkedForm<T>(schema: z.ZodType<T>, value: unknown): T {
  try {
    return parseWithSchema(schema, value, "body");
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw invalid(error.options.param, error.publicMessage);
  }
}
