// What a body must be sent as, and what it then says.

import { Fault } from "../base/fault.ts";
import { parseFormBody, parseJsonBody } from "./body.ts";

export function decodeForm(request: Request, bodyText: string): Record<string, string> {
  if (contentTypeOf(request) !== "application/x-www-form-urlencoded")
    throw wrongType("application/x-www-form-urlencoded");
  return parseFormBody(bodyText);
}

export function decodeJson(request: Request, bodyText: string): unknown {
  if (bodyText !== "") demandJson(request);
  return parseJsonBody(bodyText);
}

export function demandJson(request: Request): void {
  const type = contentTypeOf(request);
  if (type !== "application/json" && !type.endsWith("+json")) throw wrongType("application/json");
}

function wrongType(wanted: string): Fault {
  return new Fault("unsupported_media_type", "wrong content type", {
    message: `Send the body as content-type ${wanted}.`,
    param: "content-type",
  });
}

function contentTypeOf(request: Request): string {
  return request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
}
