// Decodes a request body by its content type: JSON or a form.

import { Fault, invalid } from "../../base/fault.ts";
import { parseFormBody, parseJsonBody } from "./body.ts";

export function decodeForm(request: Request, bodyText: string): Record<string, string> {
  const type = contentTypeOf(request);
  if (type !== "application/x-www-form-urlencoded")
    throw unsupportedContentType(type, "application/x-www-form-urlencoded");
  return rejectNul(parseFormBody(bodyText), []);
}

export function decodeJson(request: Request, bodyText: string): unknown {
  if (bodyText !== "") requireJsonContentType(request);
  const body = parseJsonBody(bodyText);
  return bodyText.includes(String.raw`\u0000`) ? rejectNul(body, []) : body;
}

export function requireJsonContentType(request: Request): void {
  const type = contentTypeOf(request);
  if (type !== "application/json" && !type.endsWith("+json"))
    throw unsupportedContentType(type, "application/json");
}

export function multipartRequired(request: Request): Fault {
  return unsupportedContentType(contentTypeOf(request), "multipart/form-data");
}

/** PostgreSQL cannot store a NUL in text. */
function rejectNul<T>(value: T, path: readonly string[]): T {
  if (typeof value === "string" && value.includes("\u0000")) {
    const name = path.join(".");
    throw invalid(
      name || undefined,
      `${name === "" ? "The request body" : `\`${name}\``} must not contain a NUL character.`,
    );
  }
  if (typeof value !== "object" || value === null) return value;
  for (const [name, member] of Object.entries(value)) {
    if (name.includes("\u0000"))
      throw invalid(undefined, "Field names must not contain a NUL character.");
    rejectNul<unknown>(member, [...path, name]);
  }
  return value;
}

function unsupportedContentType(sent: string, supported: string): Fault {
  const problem =
    sent === ""
      ? "The `content-type` header is missing."
      : `The content type \`${sent.slice(0, SHOWN_MAX_CHARACTERS)}\` is not supported.`;
  return new Fault("unsupported_media_type", "wrong content type", {
    message: `${problem} Send the body as \`${supported}\`.`,
    param: "content-type",
  });
}

const SHOWN_MAX_CHARACTERS = 100;

function contentTypeOf(request: Request): string {
  return request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
}
