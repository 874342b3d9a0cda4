// What the endpoints of OAuth return and read: errors in the form of RFC 6749, and parameters.

import { z } from "zod";
import type { ResponseDoc, RouteResponse } from "./route.ts";

/** The documentation of a 400 in the form of RFC 6749. `meanings` are by `error`, the most frequent first. */
export function oauthErrorResponse(
  id: string,
  meanings: Readonly<Record<string, string>>,
): Readonly<Record<400, ResponseDoc>> {
  const codes = Object.keys(meanings);
  const [first = ""] = codes;
  return {
    400: {
      description: `By \`error\`: ${codes.map((code) => `\`${code}\`: ${meanings[code]}`).join(" ")}`,
      schema: z
        .looseObject({
          error: z.enum(codes).meta({ description: "What happened." }),
          error_description: z.string().meta({ description: "The same in words." }),
        })
        .meta({ id }),
      example: { error: first, error_description: meanings[first] },
    },
  };
}

export function oauthError(
  error: string,
  description: string,
  fields: Readonly<Record<string, unknown>> = {},
): RouteResponse {
  return { status: 400, body: { error, error_description: description, ...fields } };
}

/** RFC 6749 §3.2: a parameter without a value counts as omitted. */
export function isOmitted(parameter: string | undefined): parameter is undefined | "" {
  return parameter === undefined || parameter === "";
}
