// Which raw key a request sends, of the two headers that may have one. Who it belongs to is asked elsewhere.

import { Fault, invalid } from "../../base/fault.ts";
import type { Dialect } from "../route.ts";

/** Undefined where there is none. */
export function readApiKey(headers: Headers, dialect: Dialect): string | undefined {
  const bearer = headers.get("authorization");
  // An unset variable makes an empty header, which Anthropic's clients send beside the one that has the key.
  const apiKeyHeader = headers.get("x-api-key")?.trim() || undefined;
  // Two headers of one name arrive joined by a comma, which no key has.
  if (apiKeyHeader?.includes(",") === true && dialect !== "oauth")
    throw invalid("x-api-key", "The x-api-key header must be one API key, once.");
  if (bearer === null || (apiKeyHeader !== undefined && /^bearer$/i.test(bearer.trim())))
    return apiKeyHeader;
  const match = /^bearer +([^\s,]+)$/i.exec(bearer.trim());
  if (match?.[1] === undefined) throw notBearer(bearer, dialect);
  if (apiKeyHeader !== undefined && apiKeyHeader !== match[1])
    throw invalid("x-api-key", "Two different API keys were sent. Send one.");
  return match[1];
}

// RFC 6749 §5.2 and the specification agree: what is no key is answered 401. Two keys at once are a request that nobody
// should guess the meaning of.
function notBearer(header: string, dialect: Dialect): Fault {
  const message = "The authorization header must be `Bearer <API_KEY>`, once.";
  if (header.includes(",") && dialect !== "oauth") return invalid("authorization", message);
  return new Fault("invalid_api_key", "not a bearer key", { message });
}
