// What a body must be sent as, and what it then says.

import { Fault, invalid } from "../../base/fault.ts";
import { parseFormBody, parseJsonBody } from "./body.ts";

export function decodeForm(request: Request, bodyText: string): Record<string, string> {
  if (contentTypeOf(request) !== "application/x-www-form-urlencoded")
    throw wrongContentType("application/x-www-form-urlencoded");
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
    throw wrongContentType("application/json");
}

/** No store of ours keeps a NUL in text. */
function rejectNul<T>(value: T, path: readonly string[]): T {
  if (typeof value === "string" && value.includes("\u0000"))
    throw invalid(path.join(".") || undefined, "A text holds a NUL character.");
  if (typeof value !== "object" || value === null) return value;
  for (const [name, member] of Object.entries(value)) {
    if (name.includes("\u0000")) throw invalid(undefined, "The name of a field holds a NUL.");
    rejectNul<unknown>(member, [...path, name]);
  }
  return value;
}

function wrongContentType(wanted: string): Fault {
  return new Fault("unsupported_media_type", "wrong content type", {
    message: `Send the body as content-type ${wanted}.`,
    param: "content-type",
  });
}

function contentTypeOf(request: Request): string {
  return request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
}

interface ParseSchema {
  readonly safeParse: (value: unknown) =>
    | { readonly success: true; readonly data: unknown }
    | {
        readonly success: false;
        readonly error: {
          readonly issues: readonly {
            readonly path: readonly PropertyKey[];
            readonly message: string;
            readonly keys?: readonly string[];
          }[];
        };
      };
}

/** What a schema makes of a value; a fault that names the field and says `where` it was sent. */
export function parseWithSchema(
  schema: ParseSchema | undefined,
  value: unknown,
  messagePrefix: string,
): unknown {
  if (schema === undefined) return undefined;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const path = (issue?.path ?? []).map(String).join(".");
  const name = path === "" ? undefined : path;
  // A field that nobody knows is the one that is wrong, not the object that it stands in.
  const unknown = [name, issue?.keys?.[0]].filter((part) => part !== undefined).join(".");
  throw invalid(
    unknown === "" ? undefined : unknown,
    `${messagePrefix}${name === undefined ? "" : `${name}: `}${issue?.message ?? "not valid"}`,
  );
}
